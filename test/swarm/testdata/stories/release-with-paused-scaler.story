# kubectl drydock release restores the policy of a set whose Scaler is paused, and leaves it at zero.
world sets=1 owner=0 delete cleanup scaler
calm 3 3
scalerpause web
calm 3 3
leave web
calm 3 3
