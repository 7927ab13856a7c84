# The pods of an order run again, and are stopped before anybody has looked.
world sets=1 owner=0 parallel cleanup
shows: "generation":2,"orders":1,"removing":{"start":1,"end":3,"order":1}}
shows: scale web 3
shows: "count":3,"generation":4,"orders":1}
calm
scale web 1
source
deliver x4
scale web 3
settle
scale web
settle
source
deliver x3
