# The autoscaler of a Scaler scales the set. A policy refuses what another autoscaler writes to the set itself.
world sets=1 owner=0 parallel cleanup scaler hook
mode web 1
calm 3
autoscale 1
calm 3
mode web
hpa web 1
calm 3
autoscale
calm 3
