# a user edits the resource's size and requests another one for the set at once: the pause lasts, because the operator would undo the resize
world sets=1 owner=2
ownersize db 8
resize web 8
