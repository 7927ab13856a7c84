# The pods of an order run again, and are stopped before anybody has looked.
world sets=1 owner=0 parallel cleanup
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
