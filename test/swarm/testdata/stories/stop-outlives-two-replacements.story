# a resize replaces a sleeping set without its records, and replaces it once more when its copy has failed
world sets=1 owner=0 parallel
paused web
rush
resize web 2
sick
replace web
calm 2
clock 4
