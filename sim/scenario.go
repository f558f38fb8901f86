package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/protocol/aggregate"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
	"github.com/iota-train/iota/role/orchestrator"
)

// Scenario carries out the commands of one transcript.
type Scenario struct {
	Seed *uint64 // if set, in place of the seeds that the transcript names
	sim  *Sim
}

// Sim returns the network of the last `network` command, or nil.
func (c *Scenario) Sim() *Sim { return c.sim }

// Close frees the network.
func (c *Scenario) Close() {
	if c.sim != nil {
		c.sim.Close()
	}
}

// Do carries out one command and returns its output, lines without an empty one among them. The error is a mistake in
// the command, or a broken law: then the output says what happened until then.
func (c *Scenario) Do(command string) (string, error) {
	name, args, err := parseCommand(command)
	if err != nil {
		return "", err
	}
	lines, err := c.do(name, args)
	if err == nil {
		err = args.unused()
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if c.sim != nil && c.sim.err != nil {
		err = c.sim.err
	}
	if len(lines) == 0 {
		lines = []string{"ok"}
	}
	return strings.Join(lines, "\n") + "\n", err
}

func (c *Scenario) do(name string, a *arguments) ([]string, error) {
	if name == "network" {
		return nil, c.network(a)
	}
	if c.sim == nil {
		return nil, fmt.Errorf("there is no network yet: begin with one")
	}
	switch name {
	case "run":
		return c.run(a)
	case "view":
		return c.view(), nil
	case "miners":
		return c.miners(), nil
	case "clasp":
		return c.clasp(), nil
	case "totals":
		return c.totals(), nil
	case "pay":
		return c.pay(), nil
	case "audits":
		return c.audits(), nil
	case "sybils":
		return c.sybils(), nil
	case "hashes":
		return c.hashes(), nil
	case "laws":
		return []string{"the laws hold"}, c.sim.Verify()
	}
	return nil, c.disturb(name, a)
}

// disturb carries out the commands that make something happen, all of which take no time.
func (c *Scenario) disturb(name string, a *arguments) error {
	s := c.sim
	switch name {
	case "join":
		n, factor := a.number("n", 1), a.float("factor", 1)
		if a.err != nil {
			return a.err
		}
		if len(s.machines)+n > mostMiners {
			return fmt.Errorf("n=%d: use at most %d miners", n, mostMiners)
		}
		for range n {
			s.Join(1).Slow(factor)
		}
		return nil
	case "sybil":
		n, factor, l := a.number("n", 50), a.float("factor", 1), lie{kind: a.text("kind", ""), rate: a.float("rate", 1)}
		if a.err == nil && len(s.machines)+n > mostMiners {
			a.note("n", fmt.Sprintf("is too many: use at most %d miners", mostMiners))
		}
		if a.err != nil {
			return a.err
		}
		return s.Sybil(n, factor, l)
	case "validate":
		if n := a.number("n", 1); a.err == nil && len(s.validators)+n <= mostMiners {
			s.JoinValidators(n)
		}
		return a.err
	case "restart":
		s.Restart(a.duration("down", 0))
		return a.err
	case "lose":
		return s.LoseCheckpoint(a.number("stage", 0))
	case "stop":
		s.hub.step(&message.Event{Kind: &message.Event_Stop{Stop: &message.Stop{AtOnce: a.flag("now")}}})
		return nil
	}
	return c.disturbOne(name, a)
}

// disturbOne carries out the commands that concern one participant.
func (c *Scenario) disturbOne(name string, a *arguments) error {
	s := c.sim
	m := s.Machine(a.number("miner", 0))
	if n := a.number("validator", 0); n > 0 {
		m = s.Validator(n)
	}
	if m == nil {
		return fmt.Errorf("name one of the %d miners, as in miner=1, or of the %d validators", len(s.machines), len(s.validators))
	}
	switch name {
	case "kill":
		m.Kill()
	case "leave":
		m.Leave()
	case "revive":
		m.Revive(a.number("old", 0))
	case "rejoin":
		return m.Rejoin()
	case "slow":
		m.Slow(a.float("factor", 10))
	case "cut":
		m.Cut(a.duration("for", time.Second))
	case "disconnect":
		m.Disconnect(a.duration("for", time.Second))
	case "duplicate":
		m.Twice(a.number("n", 1))
	case "nan":
		return m.nan(a.text("kind", "gradient"), a.number("n", 1))
	case "badreduce":
		return m.Err("bad-reduce", a.number("n", 1), s.config.Seed)
	case "adversary":
		return c.lie(m, a)
	default:
		return fmt.Errorf("no such command")
	}
	return a.err
}

// lie makes a participant misbehave, with an accomplice if one is named.
func (c *Scenario) lie(m *Machine, a *arguments) error {
	var with []*Machine
	if n := a.number("with", 0); n > 0 {
		if with = append(with, c.sim.Machine(n)); with[0] == nil {
			return fmt.Errorf("with=%d: name one of the %d miners", n, len(c.sim.machines))
		}
	}
	return m.Lie(a.text("kind", ""), a.float("rate", 1), with...)
}

// mostMiners bounds a scenario's miners, all of which live in this process.
const mostMiners = 1024

// network makes a new network. Its rules are quick ones; each can be given.
func (c *Scenario) network(a *arguments) error {
	c.Close()
	shape, err := model.Preset(a.text("preset", "nano"))
	if err != nil {
		return err
	}
	if n := a.number("stages", 0); n > 0 {
		if shape, err = shape.WithStages(n); err != nil {
			return err
		}
	}
	seed := uint64(a.number("seed", 1))
	if c.Seed != nil {
		seed = *c.Seed
	}
	config := Config{Seed: seed, Unit: a.duration("unit", 10*time.Millisecond)}
	if config.Link, err = transport.ParseLink(a.text("link", "unlimited,1ms")); err != nil {
		return err
	}
	numerics, err := kernel.ParsePrecision(a.text("precision", "f32"))
	if err != nil {
		return err
	}
	m := &message.Manifest{
		Run: "sim", Preset: a.text("preset", "nano"), Model: manifest.Model(shape), Rules: scenarioRules(a),
		Numerics: string(numerics), Data: &message.Data{Seed: seed},
	}
	if a.flag("real") {
		if config.Text, err = sampleText(); err != nil {
			return err
		}
		hash := config.Text.Hash()
		m.Data.Tokenizer, m.Data.Hash = config.Text.Tokenizer().Name(), hash[:]
	}
	config.Manifest = m
	miners, validators := a.number("miners", 2*shape.Stages()), a.number("validators", 0)
	if a.err != nil {
		return a.err
	}
	for name, n := range map[string]int{"miners": miners, "validators": validators} {
		if n > mostMiners {
			return fmt.Errorf("%s=%d: use at most %d", name, n, mostMiners)
		}
	}
	if c.sim, err = New(config); err != nil {
		return err
	}
	if miners > 0 {
		c.sim.Join(miners)
	}
	c.sim.JoinValidators(validators)
	return nil
}

// sampleText is the embedded text.
func sampleText() (*data.Dataset, error) {
	tokenizer, err := data.NewTokenizer("bytes")
	if err != nil {
		return nil, err
	}
	return data.Sample(tokenizer)
}

// scenarioRules are the rules of a scenario: short epochs and deadlines, unless others are given. They stand on their
// own, so that better defaults for real runs leave the transcripts as they are.
func scenarioRules(a *arguments) *message.Rules {
	r := &message.Rules{
		CommitEvery: uint32(a.number("c", 4)), LearningRate: 3e-3, WarmupTokens: 20_000, Clip: 1, WeightDecay: 0.1,
		MaxMiners: mostMiners,
	}
	r.Epochs = uint32(a.number("epochs", 3))
	r.InnerSteps, r.MicroBatchesPerStep = uint32(a.number("h", 4)), uint32(a.number("k", 1))
	r.HeldOut, r.HeldOutPerEpoch = uint32(a.number("heldout", 4)), uint32(a.number("heldoutper", 1))
	r.Quorum = a.float("q", 1)
	r.MaxSlots = uint32(a.number("slots", 3))
	r.KeepEpochs = uint32(a.number("keep", 1))
	r.AuditShare = a.float("audit", 0)
	r.ShardShare = a.float("shards", r.AuditShare)
	r.Recompute = a.flag("recompute")
	r.Share, r.Aggregate = a.text("share", "f32"), a.text("aggregate", aggregate.Mean)
	r.OuterRate, r.OuterMomentum = a.float("outer", 1), a.float("momentum", 0)
	r.BudgetPerToken, r.ValidatorPart = uint64(a.number("budget", 1000)), uint32(a.number("part", 0))
	r.ChallengeWindow, r.Probation = uint32(a.number("window", 2)), uint32(a.number("probation", 8))
	for _, d := range []struct {
		name    string
		value   *int64
		usually time.Duration
	}{
		{"lease", &r.Lease, 2 * time.Second}, {"epoch", &r.EpochDeadline, time.Minute}, {"drain", &r.DrainDeadline, 5 * time.Second},
		{"sharing", &r.ShareDeadline, 5 * time.Second}, {"grace", &r.ShareGrace, 5 * time.Second},
		{"reducing", &r.ReduceDeadline, 5 * time.Second}, {"installing", &r.InstallDeadline, 5 * time.Second},
		{"reconnect", &r.Reconnect, 10 * time.Second}, {"patience", &r.Patience, 20 * time.Second},
	} {
		*d.value = int64(a.duration(d.name, d.usually))
	}
	return r
}

// run lets time pass: until something happens, or for a time.
func (c *Scenario) run(a *arguments) ([]string, error) {
	s, text := c.sim, a.text("until", "")
	limit := a.duration("max", 10*time.Minute)
	until := func() bool { return false }
	if d := a.duration("for", 0); d > 0 {
		limit = d
	} else {
		var err error
		if until, err = s.condition(text); err != nil {
			return nil, err
		}
	}
	if a.err != nil {
		return nil, a.err
	}
	held := s.Run(until, limit)
	lines := s.Lines()
	if !held && text != "" && s.err == nil {
		lines = append(lines, fmt.Sprintf("%s not reached: %s", seconds(s.now), text))
	}
	if len(lines) == 0 {
		lines = []string{seconds(s.now)}
	}
	return lines, nil
}

// condition reads what to run until.
func (s *Sim) condition(text string) (func() bool, error) {
	kind, value, _ := strings.Cut(text, ":")
	switch kind {
	case "end":
		return s.Finished, nil
	case "epoch":
		n, err := strconv.ParseUint(value, 10, 32)
		return func() bool { return s.hub.core.Epoch >= n || s.Finished() }, err
	case "time":
		d, err := time.ParseDuration(value)
		return func() bool { return s.now >= d }, err
	case "phase":
		return func() bool { return s.hub.core.Phase == orchestrator.Phase(value) }, nil
	case "drain":
		return func() bool { return s.hub.core.Draining }, nil
	case "barred":
		n, err := strconv.Atoi(value)
		return func() bool {
			return n >= 1 && n <= len(s.hub.core.Miners) && s.hub.core.Miners[n-1].Barred != "" && !s.machines[n-1].up || s.Finished()
		}, err
	case "task":
		what, who, _ := strings.Cut(value, "@")
		number, known := message.TaskKind_value[what]
		if !known {
			return nil, fmt.Errorf("until %q: no such task", text)
		}
		machine := 0
		if who != "" {
			var err error
			if machine, err = strconv.Atoi(who); err != nil {
				return nil, fmt.Errorf("until %q: no such miner", text)
			}
		}
		s.begun = s.begun[:0]
		return func() bool {
			return slices.ContainsFunc(s.begun, func(b begun) bool {
				return b.kind == message.TaskKind(number) && (machine == 0 || b.machine == machine)
			})
		}, nil
	}
	return nil, fmt.Errorf("until %q: use epoch:N, time:D, phase:P, task:KIND@MINER, barred:N, drain or end", text)
}

// Finished reports whether the run is over.
func (s *Sim) Finished() bool { return s.hub.core.Finished }
