package model

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

const (
	backupRole = iota
	restoreRole
	// Second processes of the same functions run only as a fault, and only once.
	secondBackupRole
	secondRestoreRole
	functionCount
)

var functionNames = [functionCount]api.Function{api.Backup, api.Restore, api.Backup, api.Restore}

// who returns the name of the process in a story.
func who(role int) string {
	if role >= secondBackupRole {
		return "second " + string(functionNames[role])
	}
	return string(functionNames[role])
}

// function is one invocation: the writes that it has decided and not yet applied, the API server's rejection within this event, and the
// objects that it has read ahead of the others.
type function struct {
	pending []plan.Action
	refused error
	early   *earlyRead
}

// earlyRead holds the objects of one kind, read earlier than the others.
type earlyRead struct {
	kind    plan.Resource
	objects map[key]*entry
}
