# A tool applies a manifest with a count to a set that sleeps, and later a user replaces the set with it. Both wake the set.
world sets=1 owner=0 parallel cleanup
paused web
calm 3
apply web 1
calm 3
paused web
calm 3
put web
calm 3
