# The Scaler wants more again while its scale-down runs: the count of a scaling does not change.
world sets=1 owner=0 ownsall parallel cleanup scaler hook
tick 7
scaler web 1
deliver 6
deliver
scaler web 11
deletepod web 7
