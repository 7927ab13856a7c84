# a user edits the resource's size and requests another one for the set at once: the pause lasts, because the operator would undo the resize
world sets=1 owner=2
shows: ownersize web 8
shows: pause-owner(web): PATCH rabbitmqclusters/own add /metadata/labels/rabbitmq.com~1pauseReconciliation true
shows: add disagrees-since
ownersize db 8
resize web 8
