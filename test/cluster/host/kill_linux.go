package host

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// killVerified kills a process if it still belongs to the cluster in dir. It opens the pidfd before the check. Therefore the signal cannot
// reach another process that later gets the same number.
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

// signal sends SIGKILL and ignores a process that has already ended.
func signal(handle int) error {
	if err := unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signalling the process: %w", err)
	}
	return nil
}

// killMember kills a process if it is still in the cgroup.
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
