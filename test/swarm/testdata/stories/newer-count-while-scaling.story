# The Scaler wants more again while its scale-down runs: the count of a scaling does not change.
world sets=1 owner=0 ownsall parallel cleanup scaler hook
shows: scale(web): PATCH statefulsets/web add scale Scale PreScaling ScalingStarted "scaling from 3 to 1"
shows: scaler web 11
shows: scale(web): PATCH statefulsets/web add scale Scale Scaling CountChanged "spec.replicas of the StatefulSet was set to 1"
tick 7
scaler web 1
deliver 6
deliver
scaler web 11
deletepod web 7
