# kubectl drydock release starts a set that sleeps, with the policy of its user.
world sets=1 owner=0 delete idle cleanup
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Asleep
shows: release(web): PATCH statefulsets/web add /spec/replicas 3; add /spec/persistentVolumeClaimRetentionPolicy/whenScaled Delete; remove stop
sleepat web
calm 7 7
leave web
calm 3 3
