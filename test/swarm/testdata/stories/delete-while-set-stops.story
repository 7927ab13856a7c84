# whenScaled Delete, written while the set stops, is refused until its pods have ended.
world sets=1 owner=0 ownsall parallel
shows: "replicas":3,"stopped":"2000-01-01T00:01:00Z"}; add /spec/replicas 0
shows: kubectl-edit cannot change statefulsets/web: statefulsets "web" is forbidden: ValidatingAdmissionPolicy 'drydock-sleeping-sets'
shows: settle web
paused web
source
deliver
source
deliver
source
deliver x3
policy web 1
settle
