# in a sleep, a user writes the retention policy twice before Drydock sees the first write: the last one counts
world sets=1 owner=0 delete idle
sleep web 1
rush
policy web 3
policy web 10
