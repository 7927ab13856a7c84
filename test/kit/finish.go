package kit

import (
	"context"
	"fmt"

	"drydock.dev/shared/api"
)

// Finish ticks until the operation on the set has ended, and returns its record.
func (w *World) Finish(d *Drive, name string) *api.Resize {
	w.T.Helper()
	var status *api.Resize
	w.Eventually("the operation ends", func() string {
		if err := d.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if status = w.Status(name); status == nil {
			return "there is no status"
		}
		if !status.Phase.Terminal() {
			return fmt.Sprintf("phase %s: %s", status.Phase, status.Message)
		}
		return ""
	})
	return status
}
