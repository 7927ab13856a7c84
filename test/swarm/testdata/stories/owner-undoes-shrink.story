# the owner never gets the new size, so its operator creates the set again a day after the resize
world sets=1 owner=2 parallel cleanup
shows: add disagrees-since
shows: 24h53m15s   pause-owner(web): PATCH rabbitmqclusters/own remove /metadata/labels/rabbitmq.com~1pauseReconciliation
shows: the operator deletes set web, because its template has 2Gi
resize web 2
rush
calm 3 x3
