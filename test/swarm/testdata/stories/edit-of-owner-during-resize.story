# A user writes another size into the owner while it is paused for a resize. Drydock is to change the owner, but keeps the edit.
world sets=1 owner=2
ownerpolicy web
resize web 2
source
deliver x8
source
deliver x8
source
deliver x8
ownersize web 2
rush
clock 3
rush
calm 3
