# A disruption budget forbids each stop of a rolling resize, until the user deletes it.
world sets=1 owner=0 parallel
shows: a budget refuses restore(web): POST pods/web-2
shows: restore(web): POST pods/web-2
strategy web
budget web 1
resize web 2
calm 3 x2
budget web
calm 3 x3
