# The Scaler wants no pods, a sleep begins before that, and the set wakes with the former count.
world sets=2 owner=0 idle scaler
shows: scaler db
shows: "kind":"Sleep","replicas":3,"stopped":"2000-01-01T00:04:00Z"}
shows: idle-timeout(db): PATCH statefulsets/db add last-activity 2000-01-01T00:07:00Z; add sleep Sleep Waking
calm 2
scaler db
sleepat db
