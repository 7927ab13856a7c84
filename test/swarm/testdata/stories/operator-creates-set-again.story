# An operator deletes its set to create it again with another size, and cleanup-on-delete asks for a cleanup. The claims stay.
world sets=1 owner=2 cleanup cleanondelete
ownersize web 11
