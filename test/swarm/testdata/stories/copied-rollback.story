# A rollback on the custom resource is refused. Its operator copies the order again and again, and it is refused once.
world sets=1 owner=2
shows: rollback web 11
shows: the operator replaces the metadata of web
shows: detect-resize(web): PATCH statefulsets/web add status Resize Refused ExpandImpossible
method web 2
resize web 5
resize web 2
rush
rollback web 11
calm 2
