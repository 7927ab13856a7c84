# A manifest replaces the annotations of a sleeping set, and its operator starts it while all writes to it are refused. No record is left.
world sets=2 owner=1 ownsall cleanup
shows: replace db
shows: a webhook refuses scale(db): PATCH statefulsets/db
shows: the operator sets db from 0 to 3
paused db 11
rush
replace db 1
refuseset 0 5
