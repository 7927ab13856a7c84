# A tool removes the record of a sleep, and cleanup-pod takes the stop by the operator for a scale-down.
world sets=1 owner=3 ownsall parallel
ends with: system:serviceaccount:drydock:cleanup-pod deletes claim data-S-N, whose member was always wanted
cleanon web 4
paused web
resize web 3
calm 5
replace web
source 4
deliver 6
deliver 10
deliver
