# A user opts in the set of an operator, which takes the label off while Drydock puts the set to sleep, and opts in the resource later.
world sets=1 owner=2 cleanup
shows: idle-timeout(web): PATCH statefulsets/web add sleep Sleep Planned
shows: the operator replaces the metadata of web
shows: optin web 0
optout web
calm
optin web 3
paused web
source
deliver
operator 1
deliver x2
calm
optin web
calm 1
