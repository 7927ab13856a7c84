# A set that was deleted and created again during a sleep with a Scaler wakes up.
world sets=1 owner=0 parallel idle scaler
calm
sleep web 4
calm 7
delete web
