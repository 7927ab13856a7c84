# The Scaler wants no pods, a sleep begins before that, and the set wakes with the former count.
world sets=2 owner=0 idle scaler
calm 2
scaler db
sleepat db
