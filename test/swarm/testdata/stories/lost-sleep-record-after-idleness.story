# A tool removes the record of a sleep after idleness, and no claim is deleted.
world sets=1 owner=1 ownsall parallel idle cleanup
calm 11
clock 4
calm 10
replace web
tick 9
slow 9 4
deliver 4
