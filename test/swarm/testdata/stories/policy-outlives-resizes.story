# A resize begins while the retention policy of a woken set has yet to be restored.
world sets=1 owner=0 delete scaler
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Succeeded Awake
shows: detect-resize(web): PATCH statefulsets/web add status Resize Planned
shows: scale(web): PATCH statefulsets/web add /spec/persistentVolumeClaimRetentionPolicy/whenScaled Delete; remove stop
paused web 7
calm 0 9
resize web 8
unpaused web 5
calm 8 2
resize web 9
