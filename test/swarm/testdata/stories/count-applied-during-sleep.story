# A tool applies a manifest with a count to a set that sleeps, and later a user replaces the set with it. Both wake the set.
world sets=1 owner=0 parallel cleanup
shows: idle-timeout(web): PATCH statefulsets/web add last-activity 2000-01-01T00:05:00Z; add sleep Sleep Waking StartedByOthers
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Asleep FellAsleep
shows: put web
paused web
calm 3
apply web 1
calm 3
clock 3
calm 3
put web
calm 3
