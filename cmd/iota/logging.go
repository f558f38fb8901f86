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

// logRun logs what becomes of a run until ctx ends: every epoch, every alert, and what it waits for.
func logRun(ctx context.Context, hub *node.Hub, log *slog.Logger) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	v := hub.View()
	log = log.With("run", v.Run)
	epochs, noted, waiting := len(v.Epochs), v.Now, ""
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
