# A Scaler that is created while its set sleeps wakes it up.
world sets=3 owner=0 idle
shows: idle-timeout(db): PATCH statefulsets/db add sleep Sleep Asleep
shows: scale(db): PATCH statefulsets/db add scale Scale Succeeded ScalerReady
shows: idle-timeout(db): PATCH statefulsets/db add last-activity 2000-01-01T00:08:00Z; add sleep Sleep Waking
sleepat db 2
calm 7 7
scalernew db 5
