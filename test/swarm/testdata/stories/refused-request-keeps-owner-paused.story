# a second request, which is refused, does not end the pause of an owner that has the former size
world sets=1 owner=2
shows: add disagrees-since
shows: detect-resize(web): PATCH statefulsets/web add status Resize Refused ExpandImpossible
shows: pause-owner(web): PATCH statefulsets/web add status Resize Refused ExpandImpossible
resize web 2
rush
clock 1
calm 3 x3
method web 2
resize web 4
calm 3 x3
