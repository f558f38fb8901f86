package remote

import (
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/iota-train/iota/edge/store"
)

// members are the keys that the server knows of, with what each of them holds.
type members struct {
	limits Limits

	mu     sync.Mutex
	byKey  map[string]*member
	conns  []*tcp // that proved a key, in order of arrival
	memory int64  // bytes of blobs on their way
	swept  time.Time
}

// member is one key. The lock of members guards what follows the limiters.
type member struct {
	key            string
	calls, in, out *rate.Limiter

	conns    int
	running  int // calls
	sessions []*session
	joined   time.Time // when it last had a session
	seen     time.Time // when it last had a connection
	memory   int64
	uploads  map[store.Hash]*upload
}

func newMembers(l Limits) *members { return &members{limits: l, byKey: map[string]*member{}} }

var errCrowded = errors.New("too many connections")

// enter takes in a connection that proved its key. Where there are too many, one of a key that has no session makes
// room; a key with too many of its own loses its oldest.
func (m *members) enter(c *tcp, key string) (*member, error) {
	c.door.through(c)
	m.mu.Lock()
	who, evicted, err := m.admit(c, key)
	m.mu.Unlock()
	if evicted != nil {
		evicted.Close()
	}
	return who, err
}

func (m *members) admit(c *tcp, key string) (*member, *tcp, error) {
	if c.closed {
		return nil, nil, errCrowded
	}
	m.sweep()
	who := m.byKey[key]
	if who == nil && len(m.byKey) >= maxMembers {
		return nil, nil, errCrowded
	}
	var same, near int // of the key, and from the address
	for _, o := range m.conns {
		if o.member.key == key {
			same++
		}
		if o.address == c.address {
			near++
		}
	}
	var evicted *tcp
	switch {
	case same >= m.limits.ConnectionsPerKey:
		evicted = m.oldest(func(o *tcp) bool { return o.member.key == key })
	case near >= m.limits.ConnectionsPerAddress:
		evicted = m.oldest(func(o *tcp) bool { return o.address == c.address && len(o.member.sessions) == 0 })
	case len(m.conns) >= m.limits.Connections:
		evicted = m.oldest(func(o *tcp) bool { return len(o.member.sessions) == 0 })
	default:
		return m.settle(c, key), nil, nil
	}
	if evicted == nil {
		return nil, nil, errCrowded
	}
	return m.settle(c, key), evicted, nil
}

func (m *members) oldest(which func(*tcp) bool) *tcp {
	if i := slices.IndexFunc(m.conns, which); i >= 0 {
		return m.conns[i]
	}
	return nil
}

func (m *members) settle(c *tcp, key string) *member {
	who := m.byKey[key]
	if who == nil {
		l := m.limits
		bytes := func() *rate.Limiter {
			return rate.NewLimiter(rate.Limit(l.BytesPerSecond), int(min(l.BytesPerSecond, 1<<30)))
		}
		who = &member{key: key, calls: rate.NewLimiter(rate.Limit(l.Calls), l.Calls), in: bytes(), out: bytes(), uploads: map[store.Hash]*upload{}}
		m.byKey[key] = who
	}
	who.conns++
	c.member = who
	m.conns = append(m.conns, c)
	return who
}

// leave forgets a connection that is being closed.
func (m *members) leave(c *tcp) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.closed = true
	if i := slices.Index(m.conns, c); i >= 0 {
		m.conns = slices.Delete(m.conns, i, i+1)
		c.member.conns--
		c.member.seen = time.Now()
	}
}

// sweep forgets keys that have no connection any more, after a while, or at once when there are very many. The lock is
// held.
func (m *members) sweep() {
	full := len(m.byKey) >= maxMembers
	if !full && time.Since(m.swept) < rememberFor/60 {
		return
	}
	m.swept = time.Now()
	for key, who := range m.byKey {
		if who.conns > 0 || who.running > 0 || who.busy() || !full && time.Since(who.seen) < rememberFor {
			continue
		}
		for hash := range who.uploads {
			m.drop(who, hash)
		}
		delete(m.byKey, key)
	}
}

// start counts a call, which done ends.
func (m *members) start(who *member) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	most := maxStreams
	if !who.participates() {
		most = maxStrangers
	}
	if who.running >= most {
		return status.Errorf(codes.Unavailable, "more than %d calls at once", most)
	}
	who.running++
	return nil
}

func (m *members) done(who *member) {
	m.mu.Lock()
	defer m.mu.Unlock()
	who.running--
}

// participates reports whether the key has a session, or had one lately. The lock is held.
func (w *member) participates() bool {
	return len(w.sessions) > 0 || time.Since(w.joined) < rememberFor
}

// participant returns an error unless the key may use the store.
func (m *members) participant(who *member) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !who.participates() {
		return status.Error(codes.FailedPrecondition, "the store is for participants: open a session first")
	}
	return nil
}

// join counts a session of the key, and returns the one that it takes the place of, if any.
func (m *members) join(who *member, s *session) (old *session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(who.sessions) >= maxSessions {
		old = who.sessions[0]
	}
	who.sessions = append(who.sessions, s)
	return old
}

// dismiss closes all sessions.
func (m *members) dismiss() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, who := range m.byKey {
		for _, s := range who.sessions {
			s.Close()
		}
	}
}

// part ends a session. A key whose session the orchestrator itself closed is a stranger at once.
func (m *members) part(who *member, s *session, dismissed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := slices.Index(who.sessions, s); i >= 0 {
		who.sessions = slices.Delete(who.sessions, i, i+1)
	}
	if !dismissed {
		who.joined = time.Now()
	}
}
