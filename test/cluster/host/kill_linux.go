package host

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// killVerified ends a process if it is still one of the cluster in dir. The pidfd is taken before the look, so the
// signal cannot reach a process that got the number later.
func killVerified(pid int, dir string) error {
	handle, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the process: %w", err)
	}
	defer unix.Close(handle)
	if _, ours := inspect(pid, dir); !ours {
		return nil
	}
	return signal(handle)
}

// signal sends SIGKILL to a process that may be gone by now.
func signal(handle int) error {
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signalling the process: %w", err)
	}
	return nil
}

// killMember ends a process if it is still in the cgroup.
func killMember(pid int, cgroup string) error {
	handle, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the process: %w", err)
	}
	defer unix.Close(handle)
	members, err := membersOf(cgroup)
	if err != nil {
		return err
	}
	for _, member := range members {
		if member == pid {
			return signal(handle)
		}
	}
	return nil
}
