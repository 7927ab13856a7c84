# Drydock writes the new size into the owner
world sets=1 owner=2
shows: restore(web): PATCH statefulsets/web add status Resize Succeeded ResizeCompleted
shows: pause-owner(web): PATCH rabbitmqclusters/own add /spec/persistence/storage 2Gi
resize web
ownerpolicy web
rush
clock 3
rush
calm 3
