# A rollback on the custom resource is refused. Its operator copies the order again and again, and it is refused once.
world sets=1 owner=2
method web 2
resize web 5
resize web 2
rush
rollback web 11
calm 2
