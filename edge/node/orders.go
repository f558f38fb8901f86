package node

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/iota-train/iota/protocol/message"
)

// job is an order that waits for its miner.
type job struct {
	order   *message.Order
	inputs  [][]byte
	fetched bool // the inputs are there, nil for one that could not be had
	asked   bool
}

// orders is the bounded queue of one miner. The inputs of the first tasks of each urgency are fetched ahead.
type orders struct {
	ctx   context.Context // of the session
	fetch fetcher

	mu      sync.Mutex
	queues  [message.Urgencies][]*job
	changed chan struct{} // holds a token when a job may have become ready
	err     error         // of a fetch that cannot be done at all
	tasks   sync.WaitGroup
}

// ahead is how many tasks of an urgency have their inputs fetched while others are computed.
const ahead = 2

// fetcher gets a task's inputs. An error means that none can be had at all, for instance because ctx ended.
type fetcher func(ctx context.Context, t *message.Task) ([][]byte, error)

func newOrders(ctx context.Context, fetch fetcher) *orders {
	return &orders{ctx: ctx, fetch: fetch, changed: make(chan struct{}, 1)}
}

func (q *orders) signal() {
	select {
	case q.changed <- struct{}{}:
	default:
	}
}

// push queues an order. A cancellation takes the tasks that it names out at once.
func (q *orders) push(o *message.Order) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := o.Urgency()
	if len(q.queues[c]) >= maxOrders {
		return errors.New("too many orders wait")
	}
	if o.GetCancel() != nil {
		q.cancel(o.GetCancel())
	}
	q.queues[c] = append(q.queues[c], &job{order: o, fetched: c == message.Control})
	q.ask()
	q.signal()
	return nil
}

// cancel drops queued tasks: the one that is named, or all.
func (q *orders) cancel(c *message.Cancel) {
	for i := range q.queues {
		q.queues[i] = slices.DeleteFunc(q.queues[i], func(j *job) bool {
			t := j.order.GetTask()
			return t != nil && (c.GetTask() == nil || t.GetId().Key() == c.GetTask().Key() && t.GetAttempt() == c.GetAttempt())
		})
	}
}

// ask starts to fetch what is needed next. The lock is held.
func (q *orders) ask() {
	for _, queue := range q.queues {
		for _, j := range queue[:min(ahead, len(queue))] {
			if j.asked || j.fetched {
				continue
			}
			j.asked = true
			q.tasks.Go(func() {
				inputs, err := q.fetch(q.ctx, j.order.GetTask())
				q.mu.Lock()
				j.inputs, j.fetched = inputs, err == nil
				if err != nil && q.ctx.Err() == nil {
					q.err = err
				}
				q.mu.Unlock()
				q.signal()
			})
		}
	}
}

// ready reports whether pop would find a job.
func (q *orders) ready() (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, i := q.first()
	return i >= 0, q.err
}

// first returns where the most urgent job is whose inputs are there: urgency and place, or -1.
func (q *orders) first() (message.Urgency, int) {
	for c, queue := range q.queues {
		for i, j := range queue[:min(ahead, len(queue))] {
			if j.fetched {
				return message.Urgency(c), i
			}
			if message.Urgency(c) == message.Merging {
				break // a merge goes in order
			}
		}
	}
	return 0, -1
}

// pop takes the most urgent job, or nil.
func (q *orders) pop() *job {
	q.mu.Lock()
	defer q.mu.Unlock()
	c, i := q.first()
	if i < 0 {
		return nil
	}
	j := q.queues[c][i]
	q.queues[c] = slices.Delete(q.queues[c], i, i+1)
	q.ask()
	return j
}

// clear drops everything that is queued: the connection that it came over has ended.
func (q *orders) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queues = [message.Urgencies][]*job{}
}
