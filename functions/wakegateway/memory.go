package wakegateway

import (
	"strconv"
	"time"
)

// remembered is how long it is known that a session is ready. A plugin asks at every request to its site, so a page with a
// hundred pictures would be a hundred reads of the same sets. Each write covers as much more (see extend), so that no
// session is shorter for it.
const remembered = time.Second

// mostRemembered bounds the memory, because anybody may ask for anything.
const mostRemembered = 1000

// memory holds sessions that are ready, by what was asked for. Nothing else is remembered: who waits wants to know at once.
type memory map[string]memo

type memo struct {
	session Session
	until   time.Time
}

// keyOf is equal for requests that get the same session.
func keyOf(ask Ask) string { return ask.String() + " " + strconv.FormatInt(int64(ask.Session), 10) }

func (m memory) recall(ask Ask, now time.Time) (Session, bool) {
	memo, ok := m[keyOf(ask)]
	return memo.session, ok && now.Before(memo.until)
}

func (m memory) keep(ask Ask, session Session, now time.Time) {
	if len(m) >= mostRemembered {
		clear(m) // it fills again within a second
	}
	m[keyOf(ask)] = memo{session, now.Add(remembered)}
}
