# The Scaler wants no pods, the set falls asleep before that, and wakes with the former count.
world sets=2 owner=0 parallel idle scaler
ends with: in the end, set S has unwanted replicas: N, N ready, and its users want N
tick 9
deliver 4
scaler db 4
deliver 6
clock 5
