# A user gives up pods on the custom resource, which asks for more pods later. Its operator stops the pods for a while. All claims stay.
world sets=1 owner=3 cleanup
calm 3
giveup web 15
ownerstop web 1
calm 3 x2
ownerstop web
calm 3
