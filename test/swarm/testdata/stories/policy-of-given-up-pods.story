# A Scaler with a pre hook gives up its stopped members, and the retention policy of its user does not come back.
world sets=1 owner=0 delete scaler hook
shows: add /spec/persistentVolumeClaimRetentionPolicy/whenScaled Retain
shows: scaler web
shows: scale(web): DELETE controllerrevisions/
scalerpause web
calm 3
scaler web
scalerpause web 1
calm 3
