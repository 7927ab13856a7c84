# A user gives up a pod on the custom resource, which asks for it. Its operator copies the order when it stops the pods. All claims stay.
world sets=1 owner=3 cleanup
shows: giveup web 14
shows: the operator sets web from 3 to 0
shows: scale(web): PATCH statefulsets/web remove cleanup-from
calm 3
giveup web 14
ownerstop web 1
calm 3 x2
ownerstop web
calm 3
