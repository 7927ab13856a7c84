# A Scaler gives up its stopped members and is deleted. A visit starts them.
world sets=1 owner=0 idle scaler hook
ends with: in the end, set S has unwanted replicas: N, N ready, and its users want N
calm 3
scalerpause web
calm 3
scaler web
calm 3
scalerpause web 1
calm 3
scalergone web
calm 3
