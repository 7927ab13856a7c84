# A manifest without the records of a sleeping set requests a resize, which creates the set again and then deletes the record of the stop.
world sets=2 owner=0 group idle
sleep db
calm 3
replace web
resize web 2
