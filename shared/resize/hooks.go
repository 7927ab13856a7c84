package resize

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// HookPod returns the pod that the Job of a hook would create, for a dry run on the API server. It is nil if the set has no such hook.
func HookPod(set *appsv1.StatefulSet, hook resources.Hook, settings api.Settings) *corev1.Pod {
	template, err := resources.HookTemplate(set, hook)
	if err != nil || template == nil {
		return nil
	}
	link := api.Link{Operation: api.OperationID(set.UID, string(hook), 0), Role: api.RoleHook, Namespace: set.Namespace,
		Set: api.SetRef{Name: set.Name, UID: set.UID}, Member: new(int)}
	return resources.MakeMoverPod(resources.MakeHook(set, hook, template, link, 0, settings))
}

// checkHooks finds hooks that could not run before or after a member. Without a stop of members, no hook runs.
func checkHooks(in Input, w *Changes) []Problem {
	if !w.stopsMembers() {
		return nil
	}
	var found []Problem
	for _, hook := range resources.Hooks {
		template, err := resources.HookTemplate(in.Set, hook)
		switch {
		case err != nil:
			found = append(found, problem(api.HookInvalid, "%v", err))
		case template == nil || in.Cluster.NodeAccess:
		default:
			if by := statefulset.NodeAccess(&template.Spec); by != "" {
				found = append(found, problem(api.NodeAccessDenied, "the pod of annotation %s gets access to its node through %s, so Drydock does not "+
					"run it. Allow it with: kubectl label namespace %s %s=%s, then %s", hook.Annotation(), by, in.Set.Namespace,
					api.NodeAccessLabel, api.AllowValue, operation.RetryCommand(in.Set)))
			}
		}
	}
	return found
}
