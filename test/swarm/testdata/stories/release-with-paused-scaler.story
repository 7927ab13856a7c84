# kubectl drydock release restores the policy of a set whose Scaler is paused, and leaves it at zero.
world sets=1 owner=0 delete cleanup scaler
shows: scale(web): PATCH statefulsets/web add scale Scale Succeeded ScalingCompleted "scaled from 3 to 0"
shows: release(web): PATCH statefulsets/web add /spec/persistentVolumeClaimRetentionPolicy/whenScaled Delete; remove stop
calm 3 3
scalerpause web
calm 3 3
leave web
calm 3 3
