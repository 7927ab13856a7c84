package command

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/cmd/kubectl-drydock/terminal"
	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/text"
	"drydock.dev/shared/world"
)

// sleeping holds the state of kubectl drydock sleep and wake.
type sleeping struct {
	*tool
	untilWoken bool
	awakeFor   time.Duration
	wait, yes  bool
	timeout    time.Duration
	// ended is the latest sleep if it had ended before the command. It says nothing about the sleep or wake-up that was requested.
	ended string
}

func newSleep(t *tool) *cobra.Command {
	o := &sleeping{tool: t}
	c := &cobra.Command{
		Use:   "sleep sts/NAME",
		Short: "Put a StatefulSet to sleep now",
		Long: "Put the StatefulSet to sleep: its pods stop, so the command asks for your consent. If the set has the annotation\n" +
			api.IdleTimeoutAnnotation + ", its whole group falls asleep, and wakes up when it is used. Otherwise, and with\n" +
			"--until-woken, the set sleeps until kubectl drydock wake.",
		Example: "  kubectl drydock sleep sts/web\n  kubectl drydock sleep sts/web --until-woken --yes --wait",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return o.sleep(c.Context(), args[0]) },
	}
	c.Flags().BoolVar(&o.untilWoken, "until-woken", false, "sleep until kubectl drydock wake, even if the set is used")
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "stop the pods without a question")
	o.addWait(c, "asleep")
	return c
}

func newWake(t *tool) *cobra.Command {
	o := &sleeping{tool: t}
	c := &cobra.Command{
		Use:   "wake sts/NAME",
		Short: "Wake a StatefulSet",
		Long: "Wake the StatefulSet and its group, and keep them awake for the time of --for.\n\n" +
			"The exit code with --wait is 0 if the set woke up, 1 if it did not, and 3 if it still wakes up after --timeout.",
		Example: "  kubectl drydock wake sts/web --wait\n  kubectl drydock wake sts/web --for 8h",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return o.wake(c.Context(), args[0]) },
	}
	c.Flags().DurationVar(&o.awakeFor, "for", time.Hour, "how long the set stays awake at least")
	o.addWait(c, "awake and ready")
	return c
}

func (o *sleeping) addWait(c *cobra.Command, state string) {
	c.Flags().BoolVar(&o.wait, "wait", false, "wait until the set is "+state)
	c.Flags().DurationVar(&o.timeout, "timeout", 0, "the longest time to wait, for example 10m; 0 has no limit")
}

func (o *sleeping) sleep(ctx context.Context, argument string) error {
	if err := checkTimeout(o.timeout, o.wait); err != nil {
		return err
	}
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	set, err := s.managed(ctx)
	if err != nil {
		return err
	}
	if _, err := o.sleepPatch(set); err != nil {
		return err
	}
	if advice := s.optInAdvice(ctx, s.registry(ctx), set); advice != "" {
		fmt.Fprintf(o.ErrOut, "Warning: %s\n", text.Printable(advice))
	}
	if err := o.consent(ctx, o.sleepQuestion(set), o.yes || statefulset.Replicas(set) == 0); err != nil {
		return err
	}
	until := ""
	err = s.write(ctx, func(live *appsv1.StatefulSet) (*plan.Patch, error) {
		if !o.yes && !o.sleepsAsAgreed(set, live) {
			return nil, fmt.Errorf("StatefulSet %s/%s has changed since it was shown to you. Nothing was requested. Run the command again",
				live.Namespace, live.Name)
		}
		until = o.sleepsUntil(live)
		return o.sleepPatch(live)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "statefulset.apps/%s: goes to sleep with the next event or tick, until %s\n", s.name, until)
	return o.waitFor(ctx, s, o.asleep)
}

// sleepsAsAgreed reports whether the sleep of the live set stops the same pods for as long as that of the set that the user has seen. A
// question can stay open for a long time.
func (o *sleeping) sleepsAsAgreed(seen, live *appsv1.StatefulSet) bool {
	return seen.UID == live.UID && o.sleepQuestion(seen) == o.sleepQuestion(live) && o.staysAsleep(seen) == o.staysAsleep(live)
}

// sleepPatch requests the sleep. It returns an error if the set cannot sleep.
func (o *sleeping) sleepPatch(set *appsv1.StatefulSet) (*plan.Patch, error) {
	member := o.memberOf(set)
	switch {
	case member.Err != nil:
		return nil, member.Err
	case member.SleepErr != nil:
		return nil, member.SleepErr
	case !member.Sleep.Active() && statefulset.Replicas(set) == 0:
		return nil, fmt.Errorf("StatefulSet %s/%s already has no replicas, and %s", set.Namespace, set.Name, o.howToStart(set))
	}
	patch := plan.PatchOf(plan.StatefulSets, set)
	if o.staysAsleep(set) {
		return patch.Annotate(api.PausedAnnotation, "true"), nil
	}
	return patch.Annotate(api.SleepRequestedAnnotation, idle.FormatTime(o.now())), nil
}

// staysAsleep reports whether only a wake ends the sleep that the command requests. Otherwise a use of the set ends it too.
func (o *sleeping) staysAsleep(set *appsv1.StatefulSet) bool {
	return o.untilWoken || idle.MemberOf(set).Rules.Timeout == 0
}

// sleepsUntil returns what ends the sleep that the command requests.
func (o *sleeping) sleepsUntil(set *appsv1.StatefulSet) string {
	if o.staysAsleep(set) {
		return fmt.Sprintf("kubectl drydock wake -n %s sts/%s", set.Namespace, set.Name)
	}
	return "it is used"
}

// sleepQuestion asks for the consent to stop the pods.
func (o *sleeping) sleepQuestion(set *appsv1.StatefulSet) string {
	if group := set.Labels[api.GroupLabel]; group != "" && !o.staysAsleep(set) {
		return fmt.Sprintf("Put group %s of StatefulSet %s/%s to sleep? All pods of the group stop.", text.Printable(group), set.Namespace,
			set.Name)
	}
	return fmt.Sprintf("Put StatefulSet %s/%s to sleep? %s.", set.Namespace, set.Name, podsStop(statefulset.Replicas(set)))
}

func podsStop(count int32) string {
	if count == 1 {
		return "Its pod stops"
	}
	return fmt.Sprintf("Its %d pods stop", count)
}

func (o *sleeping) wake(ctx context.Context, argument string) error {
	if err := checkTimeout(o.timeout, o.wait); err != nil {
		return err
	}
	if o.awakeFor <= 0 {
		return fmt.Errorf("--for %s is over already. Write a positive duration, for example 8h", o.awakeFor)
	}
	s, err := o.open(argument)
	if err != nil {
		return err
	}
	until, stays, starts := o.now().Add(o.awakeFor), time.Time{}, ""
	err = s.write(ctx, func(set *appsv1.StatefulSet) (*plan.Patch, error) {
		member := o.memberOf(set)
		switch {
		case member.SleepErr != nil:
			return nil, member.SleepErr
		case !canWakeUnpaused(set) && formerCount(set) == 0:
			return nil, o.cannotWake(set)
		}
		patch := plan.PatchOf(plan.StatefulSets, set)
		starts = "wakes up with the next event or tick"
		if count := formerCount(set); count > 0 {
			starts = fmt.Sprintf("starts with %s, as before the backup", text.Number(int(count), "replica", "replicas"))
			plan.Set(patch, "/spec/replicas", 0, count, fmt.Sprintf("replicas 0 to %d", count))
		}
		stays = until
		if member.Rules.AwakeUntil.After(until) {
			stays = member.Rules.AwakeUntil // a longer time from before stays
		}
		if until.After(member.Rules.AwakeUntil) {
			patch = patch.Annotate(api.AwakeUntilAnnotation, idle.FormatTime(until))
		}
		if _, paused := set.Annotations[api.PausedAnnotation]; paused {
			patch = patch.Unannotate(api.PausedAnnotation)
		}
		return patch, nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(o.Out, "statefulset.apps/%s: %s, and stays awake until %s\n", s.name, starts, idle.FormatTime(stays))
	return o.waitFor(ctx, s, o.awake)
}

// formerCount returns the count before the sleep that is in the backup from which the set was restored, or 0. The functions do not start
// such a set: only the rights of its user prove that the count is right.
func formerCount(set *appsv1.StatefulSet) int32 {
	former := api.FormerSleep(set)
	if former == nil || statefulset.Controller(set) != nil || idle.MemberOf(set).HasScaler || set.DeletionTimestamp != nil {
		return 0
	}
	return max(1, former.Replicas)
}

// canWakeUnpaused reports whether the set can wake when the command has removed the annotation drydock.dev/paused.
func canWakeUnpaused(set *appsv1.StatefulSet) bool {
	unpaused := set.DeepCopy()
	delete(unpaused.Annotations, api.PausedAnnotation)
	return idle.MemberOf(unpaused).CanWake()
}

// cannotWake says why the command does not wake the set, and names the remedy.
func (o *sleeping) cannotWake(set *appsv1.StatefulSet) error {
	member := idle.MemberOf(set)
	ownCount := statefulset.Controller(set) == nil && !member.HasScaler && set.Annotations[api.WakeReplicasAnnotation] != ""
	switch {
	case set.DeletionTimestamp != nil:
		return fmt.Errorf("StatefulSet %s/%s is being deleted, so it cannot wake. When it is gone, create it again", set.Namespace,
			set.Name)
	case member.Err != nil && (ownCount || member.Stop.Pending()):
		return fmt.Errorf("StatefulSet %s/%s has invalid annotations, so it does not wake. Correct them, then run the command again: %w",
			set.Namespace, set.Name, member.Err)
	}
	return fmt.Errorf("StatefulSet %s/%s has no replicas, and %s", set.Namespace, set.Name, o.howToStart(set))
}

// howToStart says who decides the count of a set at zero that has no sleep, and how to start the set. With the annotation
// drydock.dev/paused, the started set would be put to sleep. The names come from the set, so a tenant may have written them.
func (o *sleeping) howToStart(set *appsv1.StatefulSet) string {
	member, controller, unpause := idle.MemberOf(set), statefulset.Controller(set), ""
	if member.Rules.Paused {
		unpause = fmt.Sprintf("kubectl annotate -n %s sts %s %s-", set.Namespace, set.Name, api.PausedAnnotation)
	}
	first := ""
	if unpause != "" {
		first = unpause + " && "
	}
	switch {
	case member.HasScaler:
		record := operation.Of(set).Scale
		name := text.Printable(record.Scaler.Name)
		if record.Paused {
			return fmt.Sprintf("its Scaler %s is paused. End the pause with: %skubectl patch scaler -n %s %s --type=merge "+
				"-p '{\"spec\":{\"paused\":false}}'",
				name, first, set.Namespace, shellWord(name))
		}
		return fmt.Sprintf("its Scaler %s decides its count. Scale it with: %skubectl scale -n %s scaler %s --replicas=N", name, first,
			set.Namespace, shellWord(name))
	case controller != nil && unpause != "":
		return fmt.Sprintf("%s controls it. Start it through that resource, after this command: %s",
			text.Printable(controller.Kind+" "+controller.Name), unpause)
	case controller != nil:
		return text.Printable(controller.Kind+" "+controller.Name) + " controls it. Start it through that resource"
	}
	return fmt.Sprintf("Drydock did not scale it. Start it with: %skubectl scale -n %s sts %s --replicas=1", first, set.Namespace, set.Name)
}

// memberOf returns the set's settings and records, and remembers the sleep that has ended.
func (o *sleeping) memberOf(set *appsv1.StatefulSet) idle.Member {
	member := idle.MemberOf(set)
	o.ended = ""
	if member.Sleep != nil && !member.Sleep.Active() {
		o.ended = member.Sleep.Operation
	}
	return member
}

// waitFor shows the set's sleep until done, if the user wants to wait.
func (o *sleeping) waitFor(ctx context.Context, s *session, done func(*appsv1.StatefulSet) (bool, error)) error {
	if !o.wait {
		return nil
	}
	screen := terminal.New(o.Out)
	return s.follow(ctx, o.timeout, func(observed *world.Observed) (bool, error) {
		if err := screen.Show(sleepLines(observed.Set)); err != nil {
			return false, err
		}
		return done(observed.Set)
	})
}

// asleepUntilWoken describes a set that sleeps and is paused: no use of it ends the sleep. The record's message does not know the pause.
const asleepUntilWoken = "asleep until kubectl drydock wake"

// sleepLines returns a line about the set's sleep, and one about its replicas.
func sleepLines(set *appsv1.StatefulSet) []string {
	var lines []string
	if sleep := operation.Of(set).Sleep; sleep != nil {
		message := sleep.Message
		if sleep.Phase == api.Asleep && idle.MemberOf(set).Rules.Paused {
			message = asleepUntilWoken
		}
		lines = append(lines, text.Printable(fmt.Sprintf("sleep %s is %s: %s: %s", sleep.Operation, sleep.Phase, sleep.Reason, message)))
	}
	ready, all := int(set.Status.ReadyReplicas), int(statefulset.Replicas(set))
	return append(lines, fmt.Sprintf("%d of %s %s ready", ready, counted(all, "replica"), are(ready)))
}

// asleep reports whether the set has fallen asleep. It returns an error if the sleep was refused or has failed.
func (o *sleeping) asleep(set *appsv1.StatefulSet) (bool, error) {
	records := operation.Of(set)
	switch sleep := records.Sleep; {
	case records.SleepErr != nil:
		return false, records.SleepErr
	case sleep == nil || sleep.Operation == o.ended:
		return false, nil
	case sleep.Phase == api.Refused || sleep.Phase == api.Failed || sleep.Phase == api.Succeeded: // it has ended, and no other follows
		return true, fmt.Errorf("StatefulSet %s/%s does not sleep: %s", set.Namespace, set.Name, causeOf(sleep.Head()))
	default:
		return sleep.Phase == api.Asleep, nil
	}
}

// awake reports whether the set has no active sleep and is ready. It returns an error if the wake-up has failed.
func (o *sleeping) awake(set *appsv1.StatefulSet) (bool, error) {
	records := operation.Of(set)
	switch sleep := records.Sleep; {
	case records.SleepErr != nil:
		return false, records.SleepErr
	case sleep != nil && sleep.Phase == api.Failed && sleep.Operation != o.ended:
		return true, fmt.Errorf("StatefulSet %s/%s did not wake up: %s", set.Namespace, set.Name, causeOf(sleep.Head()))
	default:
		return !sleep.Active() && statefulset.Replicas(set) > 0 && statefulset.Ready(set), nil
	}
}
