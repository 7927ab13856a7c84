# A manifest without the records of a sleeping set requests a resize, which creates the set again and then deletes the record of the stop.
world sets=2 owner=0 group idle
shows: replace web
shows: restore(web): DELETE statefulsets/web
shows: scale(web): PATCH statefulsets/web add stop {"set":{"name":"web","uid":"statefulset-web-1"}
sleep db
calm 3
replace web
resize web 2
