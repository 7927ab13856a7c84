# A Scaler that is created while its set sleeps wakes it up.
world sets=3 owner=0 idle
sleepat db 2
calm 7 7
scalernew db 5
