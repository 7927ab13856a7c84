# a resize replaces a sleeping set without its records, and replaces it once more when its copy has failed
world sets=1 owner=0 parallel
shows: replace web
shows: scale(web): PATCH statefulsets/web add stop {"set":{"name":"web","uid":"statefulset-web-2"},"operation":"f981e9c090fd","kind":"Sleep","replicas":3
shows: restore(web): DELETE statefulsets/web
paused web
rush
resize web 2
sick
replace web
calm 2
clock 4
