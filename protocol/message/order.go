package message

// Urgency is the order in which a miner takes up what it is told. Within one urgency orders keep their order.
type Urgency int

// Urgencies, the most urgent first. Acknowledgements come before everything, so that a step never waits for a task; a
// backward comes before a forward, because it frees a slot and others wait for it.
const (
	Control  Urgency = iota // acknowledgements, refusals, cancellations
	Merging                 // everything of a merge, and loading
	Backward                // LOSS and BACKWARD
	Forward                 // FORWARD and EVALUATE, and REPLAY
	Urgencies
)

// Urgency returns how urgent an order is.
func (x *Order) Urgency() Urgency {
	switch x.GetTask().GetId().GetKind() {
	case TaskKind_TASK_NONE:
		return Control
	case TaskKind_LOSS, TaskKind_BACKWARD:
		return Backward
	case TaskKind_FORWARD, TaskKind_EVALUATE, TaskKind_REPLAY:
		return Forward
	}
	return Merging
}

// Stored reports whether the outputs of such a task are blobs in the store. The others only name a checkpoint.
func (x TaskKind) Stored() bool {
	return x != TaskKind_LOAD && x != TaskKind_INSTALL && x != TaskKind_OUTER
}

// Kinds is the number of kinds of task, TASK_NONE included.
const Kinds = int(TaskKind_REPLAY) + 1

// Name is what people call a kind of task.
func (k TaskKind) Name() string { return kindNames[k] }
