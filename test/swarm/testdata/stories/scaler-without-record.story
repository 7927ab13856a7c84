# The record of a Scaler is lost, and an autoscaler lowers the count.
world sets=1 owner=0 parallel cleanup scaler
shows: scale(web) is held before PATCH statefulsets/web
shows: an autoscaler scales statefulsets/web from 3 to 1
shows: scale(web): PATCH statefulsets/web add members {"set":{"name":"web","uid":"statefulset-web-1"},"start":0,"count":3,"generation":2}
calm 1
hpa web 1
replace web
source
slow 1 4
autoscale
source
slow 1 4
settle
source
deliver x2
