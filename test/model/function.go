package model

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

const (
	backupRole = iota
	restoreRole
	// Second processes of the same functions look only as a fault, and once.
	secondBackupRole
	secondRestoreRole
	functionCount
)

var functionNames = [functionCount]api.Function{api.Backup, api.Restore, api.Backup, api.Restore}

// who names the process in a story.
func who(role int) string {
	if role >= secondBackupRole {
		return "second " + string(functionNames[role])
	}
	return string(functionNames[role])
}

// function is one invocation: its decided writes that are not carried out yet, the API server's refusal in this event, and the objects that
// its look has read already.
type function struct {
	pending []plan.Action
	refused error
	early   *sight
}

// sight is one kind of objects as a look has read them, before the others.
type sight struct {
	kind    plan.Resource
	objects map[key]*entry
}
