# A Scaler that is created while its set sleeps takes it over, and starts it when it wakes.
world sets=3 owner=0 idle
sleepat db 2
calm 7 7
scalernew db 5
