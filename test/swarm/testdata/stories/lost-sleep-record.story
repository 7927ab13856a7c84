# A tool removes the record of a sleep, and cleanup-pod takes the stop by the operator for a scale-down.
world sets=1 owner=3 ownsall parallel
cleanon web 4
paused web
resize web 3
calm 5
replace web
source 4
deliver 6
deliver 10
deliver
