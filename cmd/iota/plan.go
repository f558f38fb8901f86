package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/blake3"

	"github.com/iota-train/iota/edge/transport"
	"github.com/iota-train/iota/learn/data"
	"github.com/iota-train/iota/learn/kernel"
	"github.com/iota-train/iota/learn/model"
	"github.com/iota-train/iota/learn/tensor"
	"github.com/iota-train/iota/protocol/aggregate"
	"github.com/iota-train/iota/protocol/message"
	"github.com/iota-train/iota/role/manifest"
)

// options are the flags of the commands that start a run: what to train and how, and those of `iota up` alone.
type options struct {
	preset, tokenizer         string
	precision                 string
	stages, miners            int
	validators                int
	auditShare, shardShare    float64
	epochs                    uint32
	length                    time.Duration
	data                      []string
	seed                      uint64
	seeded                    bool
	boundary, wire            string
	width                     int
	share, aggregate          string
	dir, listen, link, report string
	adversaries               []string

	remote bool // the miners are on other machines
}

// shape is the model that the options ask for.
func (o *options) shape() (model.Config, *data.Tokenizer, error) {
	tokenizer, err := data.NewTokenizer(o.tokenizer)
	if err != nil {
		return model.Config{}, nil, usagef("--tokenizer: %w", err)
	}
	c, err := model.Preset(o.preset)
	if err != nil {
		return c, nil, usagef("--%w", err)
	}
	c.Vocab = max(c.Vocab, tokenizer.Vocab())
	if o.stages != 0 {
		if c, err = c.WithStages(o.stages); err != nil {
			return c, nil, usagef("--stages: %w", err)
		}
	}
	if o.boundary != "" {
		c.Boundary = o.boundary
	}
	if o.width != 0 {
		c.BoundaryWidth = o.width
	}
	if o.wire != "" {
		c.Wire = o.wire
	}
	if err := c.Validate(); err != nil {
		return c, nil, usageError{err}
	}
	return c, tokenizer, nil
}

// check refuses what the command line alone shows to be wrong.
func (o *options) check(c model.Config) error {
	if o.miners == 0 {
		o.miners = 2 * c.Stages()
	}
	const most = 1024
	switch {
	case o.miners < c.Stages():
		return usagef("%d miners for %d stages: every stage needs one, so use --miners %d or more, or fewer --stages",
			o.miners, c.Stages(), c.Stages())
	case o.miners > most:
		return usagef("--miners %d: use at most %d", o.miners, most)
	case o.validators < 0 || o.validators > most:
		return usagef("--validators %d: use 0 to %d", o.validators, most)
	case !(o.auditShare >= 0 && o.auditShare <= 1):
		return usagef("--audit-share %v: use a share from 0 to 1", o.auditShare)
	case !(o.shardShare >= 0 && o.shardShare <= 1):
		return usagef("--shard-share %v: use a share from 0 to 1", o.shardShare)
	case o.length < 0:
		return usagef("--for %v: use a time above 0", o.length)
	}
	if dt, err := tensor.ParseDType(o.share); err != nil || dt == "" {
		return usagef("--share %q: use f32, bf16 or int8", o.share)
	}
	if _, err := aggregate.New(o.aggregate); err != nil {
		return usagef("--%w", err)
	}
	if _, err := kernel.ParsePrecision(o.precision); err != nil {
		return usagef("--%w", err)
	}
	if _, err := o.links(); err != nil {
		return usageError{err}
	}
	return nil
}

func (o *options) links() (transport.Link, error) {
	if o.link == "" {
		return transport.Link{}, nil
	}
	return transport.ParseLink(o.link)
}

// text opens what the run trains on.
func (o *options) text(c model.Config, tokenizer *data.Tokenizer) (*data.Dataset, error) {
	var text *data.Dataset
	var err error
	if len(o.data) == 0 {
		text, err = data.Sample(tokenizer)
	} else {
		text, err = data.Open(o.data, tokenizer)
	}
	if err == nil {
		err = text.Check(c.Batch, c.SeqLen)
	}
	return text, err
}

// manifest is that of a new run.
func (o *options) manifest(c model.Config, text *data.Dataset) (*message.Manifest, [32]byte, error) {
	seed, secret := o.derive("data seed", 0), o.derive("secret", 0)
	numerics, err := kernel.ParsePrecision(o.precision)
	if err != nil {
		return nil, secret, usagef("--%w", err)
	}
	name := o.derive("run", 0)
	hash := text.Hash()
	m := &message.Manifest{
		Run: hex.EncodeToString(name[:4]), Model: manifest.Model(c), Rules: o.rules(c.Stages()),
		Data:     &message.Data{Tokenizer: text.Tokenizer().Name(), Hash: hash[:], Seed: binary.LittleEndian.Uint64(seed[:]) >> 11},
		Numerics: string(numerics), Preset: o.preset,
	}
	if err := manifest.Check(m); err != nil {
		return nil, secret, usageError{err}
	}
	return m, secret, nil
}

func (o *options) rules(stages int) *message.Rules {
	r := manifest.DefaultRules()
	r.Epochs, r.RunTime = o.epochs, int64(o.length)
	r.Share, r.Aggregate = o.share, o.aggregate
	r.MaxSlots = o.slots(stages)
	if o.validators > 0 {
		r.AuditShare, r.ShardShare, r.CommitEvery = o.auditShare, o.shardShare, auditedSteps
	} else {
		r.ValidatorPart = 0 // there is nobody to earn it: it would be burned
	}
	return r
}

// auditedSteps is the length of the segments of which audits are drawn, in inner steps: a commitment ends each.
const auditedSteps = 4

// slots is how many micro-batches a miner may hold. More than what keeps the cores busy only makes gradients stale
// (docs/results.md); behind a link, more are on the way.
func (o *options) slots(stages int) uint32 {
	if o.remote {
		return remoteSlots
	}
	perStage := o.miners / stages
	slots := (min(cores, o.miners) + perStage - 1) / perStage
	if o.link != "" {
		slots += 3
	}
	return uint32(min(slots, 8))
}

// remoteSlots lets a miner on a machine of its own work while other micro-batches of its are on the network.
const remoteSlots = 4

// derive returns 32 bytes for a purpose: from --seed, or from the system's random source.
func (o *options) derive(purpose string, i int) (b [32]byte) {
	if !o.seeded {
		rand.Read(b[:]) // never fails
		return b
	}
	var material [16]byte
	binary.LittleEndian.PutUint64(material[:], o.seed)
	binary.LittleEndian.PutUint64(material[8:], uint64(i))
	blake3.DeriveKey("iota-train 2026-11 "+purpose, material[:], b[:])
	return b
}

// newKey is the key of a new miner.
func (o *options) newKey(i int) ed25519.PrivateKey {
	seed := o.derive("miner key", i)
	return ed25519.NewKeyFromSeed(seed[:])
}

// newValidatorKey is the key of a new validator.
func (o *options) newValidatorKey(i int) ed25519.PrivateKey {
	seed := o.derive("validator key", i)
	return ed25519.NewKeyFromSeed(seed[:])
}

// sameRun returns an error that names the first flag in which a stored run differs from what is asked for now.
func (o *options) sameRun(have *message.Manifest, want *message.Manifest) error {
	numerics, err := kernel.ParseNumerics(have.GetNumerics())
	if err != nil {
		return fmt.Errorf("%s holds another run: %w: use the release that made it", o.dir, err)
	}
	a, b := have.GetModel(), want.GetModel()
	if a.GetBoundary() == model.None {
		b.BoundaryWidth = a.BoundaryWidth
	}
	for _, f := range []struct {
		flag       string
		have, want any
	}{
		{"--preset", have.GetPreset(), want.GetPreset()},
		{"--precision", numerics.Precision(), kernel.Numerics(want.GetNumerics()).Precision()},
		{"--stages", len(a.GetCuts()), len(b.GetCuts())},
		{"--boundary", a.GetBoundary(), b.GetBoundary()},
		{"--width", a.GetBoundaryWidth(), b.GetBoundaryWidth()},
		{"--wire", a.GetWire(), b.GetWire()},
		{"--tokenizer", have.GetData().GetTokenizer(), want.GetData().GetTokenizer()},
		{"--data", hex.EncodeToString(have.GetData().GetHash()[:4]), hex.EncodeToString(want.GetData().GetHash()[:4])},
		{"--share", have.GetRules().GetShare(), want.GetRules().GetShare()},
		{"--audit-share (with --validators)", have.GetRules().GetAuditShare(), want.GetRules().GetAuditShare()},
		{"--shard-share (with --validators)", have.GetRules().GetShardShare(), want.GetRules().GetShardShare()},
		{"--aggregate", have.GetRules().GetAggregate(), want.GetRules().GetAggregate()},
		{"--epochs", have.GetRules().GetEpochs(), want.GetRules().GetEpochs()},
		{"--for", time.Duration(have.GetRules().GetRunTime()), time.Duration(want.GetRules().GetRunTime())},
	} {
		if f.have != f.want {
			return fmt.Errorf("%s holds another run: its %s is %v, not %v; use the same flags, or another --dir", o.dir, f.flag, f.have, f.want)
		}
	}
	if o.seeded && have.GetData().GetSeed() != want.GetData().GetSeed() {
		return fmt.Errorf("%s holds another run: its --seed is another; use the same, or another --dir", o.dir)
	}
	if !slices.Equal(a.GetCuts(), b.GetCuts()) || a.GetWidth() != b.GetWidth() || a.GetVocab() != b.GetVocab() {
		return fmt.Errorf("%s holds another run: its model has another shape; use another --dir", o.dir)
	}
	return nil
}
