# A rollback on the custom resource is refused, and a tool removes the record. The copy of the order is refused once more.
world sets=1 owner=2
shows: rollback web 11
shows: the operator replaces the metadata of web
shows: detect-resize(web): PATCH statefulsets/web add status Rollback Refused RollbackImpossible
method web 2
resize web 5
resize web 2
rush
rollback web 11
withdraw web
rush
calm 2
replace web
rush
