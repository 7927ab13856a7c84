package statuspage

import (
	"time"

	"drydock.dev/shared/api"
)

// warn logs a warning, at most one a second.
func (p *Page) warn(what string, err error) {
	second := time.Now().Unix()
	if last := p.lastWarning.Load(); last != second && p.lastWarning.CompareAndSwap(last, second) {
		p.log.Warn(what, "function", api.StatusPage, "error", err.Error())
	}
}
