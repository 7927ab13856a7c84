# A resize begins while the retention policy of a woken set has yet to be restored.
world sets=1 owner=0 delete scaler
paused web 7
calm 0 9
resize web 8
unpaused web 5
calm 8 2
resize web 9
