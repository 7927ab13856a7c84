# A slow process links claims after their resize has ended. The links go.
world sets=1 owner=0
shows: restore(web): PATCH statefulsets/web add status Resize Failed Rejected
shows: backup(web): PATCH persistentvolumeclaims/data-web-0 add /metadata/labels/drydock.dev~1operation
refuse 1 11
resize web 10
delay 0 5
rush x2
refuse 10 7
