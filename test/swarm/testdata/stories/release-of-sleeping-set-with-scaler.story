# kubectl drydock release starts a sleeping set with a Scaler.
world sets=1 owner=0 delete idle scaler
calm 3 3
sleepat web
calm 7 7
leave web
calm 3 3
