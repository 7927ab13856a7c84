# An operator deletes its set to create it again with another size, and cleanup-on-delete asks for a cleanup. The claims stay.
world sets=1 owner=2 cleanup cleanondelete
shows: cleanup-pod(web): PATCH statefulsets/web add cleanup Cleanup Refused DeletesClaims "annotation drydock.dev/cleanup-on-delete
shows: the operator deletes set web, because its template has 1Gi
shows: operator creates set web with 3 replicas
ownersize web 11
