# whenScaled Delete, written while an operator stops the set, is refused until its pods have ended.
world sets=1 owner=1 ownsall parallel idle
shows: pause-owner(web): PATCH postgresclusters/own add /spec/shutdown true
shows: kubectl-edit cannot change statefulsets/web: statefulsets "web" is forbidden: ValidatingAdmissionPolicy 'drydock-sleeping-sets'
shows: the operator sets web from 3 to 0
policy web 8
calm 3
sleepat web
tick 6
deliver 5
deliver 11
policy web 9
