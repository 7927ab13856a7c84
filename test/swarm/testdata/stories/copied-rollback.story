# A user rolls back a growth on the custom resource, which is impossible. The operator copies the order again and again. It is refused once.
world sets=1 owner=2
resize web
rush
rollback web 11
