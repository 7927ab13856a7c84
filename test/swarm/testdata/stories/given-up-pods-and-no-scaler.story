# A Scaler gives up its stopped members and is deleted. A visit must not start them.
world sets=1 owner=0 idle scaler hook
calm 3
scalerpause web
calm 3
scaler web
calm 3
scalerpause web 1
calm 3
scalergone web
calm 3
