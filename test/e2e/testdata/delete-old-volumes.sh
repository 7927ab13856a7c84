# Deletes the old volumes that Drydock retains for a namespace: sh delete-old-volumes.sh -n NAMESPACE
set -eu
for volume in $(kubectl get pv -l "drydock.dev/namespace=$2" -o name); do
  kubectl patch "$volume" --type=merge -p '{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'
  kubectl wait --for=delete "$volume" --timeout=2m
done
