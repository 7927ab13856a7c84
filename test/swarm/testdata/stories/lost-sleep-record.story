# A tool removes the record of a sleep that an operator carried out, and no claim is deleted.
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
