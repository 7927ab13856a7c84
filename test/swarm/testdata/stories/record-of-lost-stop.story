# A manifest replaces the annotations of a sleeping set, and its operator starts it while all writes to it are refused. No record is left.
world sets=2 owner=1 ownsall cleanup
paused db 11
rush
replace db 1
refuseset 0 5
