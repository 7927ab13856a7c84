# The Scaler wants no pods, the set falls asleep before that, and wakes with the former count.
world sets=3 owner=0 idle scaler
ends with: in the end, set S has unwanted replicas: N, N ready, and its users want N
sleepat mq 11
source 0 6
slow 2 9
deliver 11 9
scaler mq 4
