package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/role/orchestrator"
)

// newLog logs for people on a terminal, and as a JSON object per line elsewhere.
func newLog(w io.Writer) *slog.Logger {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return slog.New(tint.NewTextHandler(w, &tint.Options{TimeFormat: time.TimeOnly, NoColor: os.Getenv("NO_COLOR") != ""}))
	}
	return slog.New(slog.NewJSONHandler(w, nil))
}

// Logs use one word for one thing: run, epoch, task, and miner or validator, which is the key's short form.

// logRun logs what becomes of a run until ctx ends: every epoch, every alert, who comes and goes, and what it waits for. It
// looks five times a second, so that nobody fills the log by coming and going.
func logRun(ctx context.Context, hub *node.Hub, log *slog.Logger) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	v := hub.View()
	epochs, noted, waiting, here := len(v.Epochs), v.Now, "", presence{}
	log.Info("run open", "epoch", v.Epoch, "tokens", v.Counters.Tokens)
	for done := false; !done; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			done = true
		}
		v = hub.View()
		for ; epochs < len(v.Epochs); epochs++ {
			e := v.Epochs[epochs]
			log.Info("epoch installed", "epoch", e.Epoch, "loss", e.Loss, "tokens", e.Tokens, "seconds", e.Seconds,
				"merge_seconds", e.MergeSeconds, "cohort", e.Cohort, "shards_lost", e.ShardsLost, "disagreements", e.Disagreements)
		}
		for _, a := range v.Alerts {
			if a.At > noted {
				log.Warn(a.Text, "epoch", v.Epoch)
			}
		}
		noted = v.Now
		here.log(v, log)
		reason := v.Reason
		if v.Phase != orchestrator.Waiting || v.Finished {
			reason = ""
		}
		if reason != waiting && reason != "" {
			log.Warn("the run waits", "reason", reason)
		}
		waiting = reason
	}
}

// presence is who takes part in a run, by the key's short form.
type presence map[string]bool

// log says who came or went since the last time.
func (p presence) log(v orchestrator.View, log *slog.Logger) {
	note := func(role, id, state string, more ...any) {
		here := state != "absent" && state != "barred"
		if p[id] == here {
			return
		}
		p[id] = here
		what := map[bool]string{true: " came", false: " went"}[here]
		log.Info(role+what, append([]any{role, id, "epoch", v.Epoch}, more...)...)
	}
	for _, m := range v.Miners {
		note("miner", m.ID, m.State, "stage", m.Stage)
	}
	for _, w := range v.Validators {
		note("validator", w.ID, w.State)
	}
}
