# A manifest replaces a sleeping set with a Scaler, and all annotations are lost. The set comes back as its Scaler wants, with all claims.
world sets=1 owner=0 cleanup scaler
paused web
calm 3
put web
calm 3 x2
