# Manifests replace a set twice in the middle of a swap. The next resize waits until the lost one is undone, and all pods come back.
world sets=1 owner=0 parallel
shows: replace web 5
shows: add undoing-since
shows: detect-resize(web): PATCH statefulsets/web add status Resize Planned
resize web 10
rush
tick 4 1
deliver 0 10
deliver 6 8
replace web 3
rush 1 10
resize web 3
calm 4 2
replace web 5
