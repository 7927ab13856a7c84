# in a sleep, a user writes the retention policy twice before Drydock sees the first write: the last one counts
world sets=1 owner=0 delete idle
shows: add /spec/persistentVolumeClaimRetentionPolicy/whenScaled Retain
shows: policy web 10
shows: "started":"2000-01-01T00:04:00Z","whenScaled":"Delete"}
sleep web 1
rush
policy web 3
policy web 10
