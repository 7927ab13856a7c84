# A user deletes the Job and the temporary claim of a copy. The copy begins again, and the resize succeeds.
world sets=1 owner=0 parallel
shows: deletetarget web
shows: backup(web): POST persistentvolumeclaims/
shows: backup(web): POST jobs/
resize web 2
source
deliver x3
settle
deletejob web
deletetarget web
settle
calm 3
