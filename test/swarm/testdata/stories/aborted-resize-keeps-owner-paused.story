# a resize is aborted after the first member has moved, and the owner stays paused
world sets=1 owner=2
strategy web
resize web 2
calm x2
abort web
calm 3 x2
