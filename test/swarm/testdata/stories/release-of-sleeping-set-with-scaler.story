# kubectl drydock release starts a sleeping set with a Scaler.
world sets=1 owner=0 delete idle scaler
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Asleep
shows: release(web): PATCH statefulsets/web add /spec/replicas 3; add /spec/persistentVolumeClaimRetentionPolicy/whenScaled Delete; remove stop
calm 3 3
sleepat web
calm 7 7
leave web
calm 3 3
