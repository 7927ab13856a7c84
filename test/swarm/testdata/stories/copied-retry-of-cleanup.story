# A user retries a refused cleanup on the custom resource, whose operator writes the annotation again and again. Each retry counts once.
world sets=1 owner=2 cleanup cleanondelete
shows: cleanup-pod(web): PATCH statefulsets/web add cleanup Cleanup Refused DeletesClaims
shows: remove retry
shows: the operator replaces the metadata of web
paused web 3
rush 11
owner web 4
replace web
rush 9 7
retry web 3
