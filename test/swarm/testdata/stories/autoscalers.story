# The autoscaler of a Scaler scales the set. A policy refuses what another autoscaler writes to the set itself.
world sets=1 owner=0 parallel cleanup scaler hook
shows: an autoscaler scales scalers/pilot-web from 3 to 2
shows: an autoscaler scales statefulsets/web from 2 to 1
shows: kube-controller-manager cannot change statefulsets/web: statefulsets "web" is forbidden: ValidatingAdmissionPolicy 'drydock-scaled-sets'
mode web 1
calm 3
autoscale 1
calm 3
mode web
hpa web 1
calm 3
autoscale
calm 3
