# kubectl drydock release starts a set that sleeps, with the policy of its user.
world sets=1 owner=0 delete idle cleanup
sleepat web
calm 7 7
leave web
calm 3 3
