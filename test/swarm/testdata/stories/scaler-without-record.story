# The record of a Scaler is lost, and an autoscaler lowers the count.
world sets=1 owner=0 parallel cleanup scaler
calm 1
hpa web 1
replace web
autoscale
source
slow 1 4
settle
source
deliver
