# A Scaler gives up its stopped members and is deleted. A visit must not start them.
world sets=1 owner=0 idle scaler hook
shows: scale(web): DELETE controllerrevisions/
shows: scale(web): PATCH statefulsets/web remove scale
shows: "kind":"Scale","replicas":3,"stopped":"2000-01-01T00:05:05Z","started":"2000-01-01T00:17:06Z"}
calm 3
scalerpause web
calm 3
scaler web
calm 3
scalerpause web 1
calm 3
scalergone web
calm 3
