# a resize is aborted after the first member has moved, and the owner stays paused
world sets=1 owner=2
shows: abort web
shows: restore(web): PATCH statefulsets/web add status Resize Failed Aborted "moved members stay on their new volumes, the others on their old ones; 1 of 3 members
shows: add disagrees-since
strategy web
resize web 2
calm x2
abort web
calm 3 x2
