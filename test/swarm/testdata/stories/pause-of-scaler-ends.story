# A pause of the Scaler for a sleep ends with the sleep.
world sets=1 owner=0 parallel idle scaler
calm
sleep web 4
calm 7
delete web
