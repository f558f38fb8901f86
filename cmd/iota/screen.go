package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/iota-train/iota/role/orchestrator"
)

// screen shows a run: on a terminal as one block that is drawn again in place, on a pipe as one line per epoch. As a
// writer it takes log lines, which go above the block.
type screen struct {
	out, log io.Writer
	terminal bool
	width    func() int

	mu    sync.Mutex
	drawn int // lines of the block on the terminal
	shown int // epochs that were printed

	noted    time.Duration // run time of the last alert that was printed
	notedAt  time.Duration // run time when it was, 0 before the first
	noteText string

	awaited     string        // why the run waits, "" if it does not
	awaitedFrom time.Duration // run time when that was first seen, -1 once it was printed
}

func newScreen(stdout, stderr io.Writer) *screen {
	s := &screen{out: stdout, log: stderr, width: func() int { return 100 }}
	if f, ok := stdout.(*os.File); ok && onTerminal(stdout) {
		s.terminal = true
		s.width = func() int {
			if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
				return w
			}
			return 80
		}
	}
	return s
}

// onTerminal reports whether w is a terminal that can move its cursor.
func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// Write prints log lines.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	return s.log.Write(b)
}

// line prints a line for the reader of the output.
func (s *screen) line(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase()
	fmt.Fprintf(s.out, format+"\n", args...)
}

// watch shows the run until ctx ends.
func (s *screen) watch(ctx context.Context, n *network) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	v := n.hub.View()
	s.shown, s.noted = len(v.Epochs), v.Now
	if s.shown > 0 {
		s.line("resuming run %s at epoch %d", v.Run, v.Epoch)
	}
	var speed rate
	for {
		select {
		case <-ticker.C:
			s.show(n.hub.View(), &speed)
		case <-ctx.Done():
			s.show(n.hub.View(), &speed)
			s.mu.Lock()
			s.erase()
			s.mu.Unlock()
			return
		}
	}
}

func (s *screen) show(v orchestrator.View, speed *rate) {
	speed.add(v)
	if s.terminal {
		s.draw(block(v, *speed, s.width()))
		return
	}
	for ; s.shown < len(v.Epochs); s.shown++ {
		s.line("%s", epochLine(v.Epochs[s.shown]))
	}
	s.note(v)
	s.wait(v)
}

// wait prints once, without a terminal, what the run has been waiting for a while.
func (s *screen) wait(v orchestrator.View) {
	const patience = 3 * time.Second
	if v.Phase != orchestrator.Waiting || v.Finished {
		s.awaited = ""
		return
	}
	if v.Reason != s.awaited {
		s.awaited, s.awaitedFrom = v.Reason, v.Now
	}
	if s.awaitedFrom >= 0 && v.Now >= s.awaitedFrom+patience {
		s.line("the run waits: %s", v.Reason)
		s.awaitedFrom = -1 // printed
	}
}

// note prints the alerts since the last time as log lines, a few at once and every few seconds; the others it counts. An
// alert that repeats the one before is not printed: without a terminal nothing else says why a run stands still.
func (s *screen) note(v orchestrator.View) {
	const pause, most = 5 * time.Second, 5
	first := len(v.Alerts)
	for first > 0 && v.Alerts[first-1].At > s.noted {
		first--
	}
	fresh := slices.Clone(v.Alerts[first:])
	if len(fresh) == 0 || s.notedAt > 0 && v.Now < s.notedAt+pause && !v.Finished {
		return
	}
	s.noted, s.notedAt = fresh[len(fresh)-1].At, v.Now
	fresh = slices.DeleteFunc(fresh, func(a orchestrator.Alert) bool {
		same := a.Text == s.noteText
		s.noteText = a.Text
		return same
	})
	if n := len(fresh) - most; n > 0 {
		fmt.Fprintf(s, "note: %d more before these\n", n)
		fresh = fresh[n:]
	}
	for _, a := range fresh {
		fmt.Fprintf(s, "note: %s\n", a.Text)
	}
}

func epochLine(e orchestrator.EpochReport) string {
	line := fmt.Sprintf("epoch %d: loss %.4f, %s tokens in %.1f s (merge %.2f s), %d miners merged", e.Epoch, e.Loss,
		thousands(e.Tokens), e.Seconds, e.MergeSeconds, e.Cohort)
	if e.ShardsLost > 0 {
		line += fmt.Sprintf(", %d of %d shards lost", e.ShardsLost, e.Shards)
	}
	if e.Disagreements > 0 {
		line += fmt.Sprintf(", %d disagreements", e.Disagreements)
	}
	return line
}

// erase takes the block off the terminal.
func (s *screen) erase() {
	if s.drawn > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.drawn)
		s.drawn = 0
	}
}

// draw replaces the block in one write.
func (s *screen) draw(lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b bytes.Buffer
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	for _, l := range lines {
		fmt.Fprintf(&b, "%s\x1b[K\n", l)
	}
	b.WriteString("\x1b[J")
	s.drawn = len(lines)
	_, _ = s.out.Write(b.Bytes())
}

// block is what a terminal shows, in lines of at most width characters.
func block(v orchestrator.View, speed rate, width int) []string {
	lines := []string{
		fmt.Sprintf("%s, %s parameters in %d stages, run %s, %s", v.Preset, parameters(v.Parameters), len(v.Stages), v.Run, v.Now.Round(time.Second)),
		fmt.Sprintf("epoch %-4d %s %3.0f %%  %s", v.Epoch, bar(v), 100*shownProgress(v), phaseName(v)),
	}
	if v.Reason != "" {
		lines = append(lines, "           "+v.Reason)
	}
	loss := "not known yet"
	if n := len(v.Epochs); n > 0 {
		loss = fmt.Sprintf("%.4f", v.Epochs[n-1].Loss)
	} else if v.Counters.LossFirst > 0 {
		loss = fmt.Sprintf("%.4f (first micro-batch)", v.Counters.LossFirst)
	}
	if v.Counters.LossEval > 0 {
		loss += fmt.Sprintf(", on held-out text %.4f", v.Counters.LossEval)
	}
	tokens := thousands(v.Counters.Tokens)
	if len(speed.at) > 1 { // the status page has no past
		tokens += ", " + thousands(uint64(speed.perSecond())) + " per second"
	}
	lines = append(lines, "loss       "+loss, "tokens     "+tokens)
	for _, s := range v.Stages {
		lines = append(lines, stageLine(v, s.Index))
	}
	if a := v.Audits; len(v.Validators) > 0 {
		lines = append(lines, fmt.Sprintf("audits     %d segments and %d shards drawn, %d did not hold", a.Segments, a.Shards, a.Mismatches))
	}
	if n := len(v.Alerts); n > 0 && v.Now-v.Alerts[n-1].At < 15*time.Second {
		lines = append(lines, "note       "+v.Alerts[n-1].Text)
	}
	for i, l := range lines {
		if r := []rune(l); len(r) >= width {
			lines[i] = string(r[:width-2]) + "…"
		}
	}
	return lines
}

func phaseName(v orchestrator.View) string {
	if v.Draining {
		return string(v.Phase) + ", draining"
	}
	return string(v.Phase)
}

func shownProgress(v orchestrator.View) float64 {
	if v.Phase == orchestrator.Training || v.Phase == orchestrator.Waiting {
		return v.Progress
	}
	return 1
}

func bar(v orchestrator.View) string {
	const cells = 24
	full := min(cells, int(shownProgress(v)*cells))
	return strings.Repeat("█", full) + strings.Repeat("░", cells-full)
}

// stageLine shows one stage and what its miners do.
func stageLine(v orchestrator.View, stage int) string {
	var states []string
	for _, m := range v.Miners {
		if m.Stage == stage {
			states = append(states, fmt.Sprintf("%s %s", m.ID, m.State))
		}
	}
	return fmt.Sprintf("stage %-4d %d miners  %s", stage, v.Stages[stage].Active, strings.Join(states, "  "))
}

// rate is the recent number of tokens per second.
type rate struct {
	at     []time.Duration
	tokens []uint64
}

// add notes where the run is. The rate is over the last 25 notes.
func (r *rate) add(v orchestrator.View) {
	const window = 25
	r.at, r.tokens = append(r.at, v.Now), append(r.tokens, v.Counters.Tokens)
	if n := len(r.at); n > window {
		r.at, r.tokens = r.at[n-window:], r.tokens[n-window:]
	}
}

func (r *rate) perSecond() float64 {
	n := len(r.at)
	if n < 2 || r.at[n-1] <= r.at[0] {
		return 0
	}
	return float64(r.tokens[n-1]-r.tokens[0]) / (r.at[n-1] - r.at[0]).Seconds()
}

// thousands writes a number with commas.
func thousands(n uint64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// parameters writes a model's size for people.
func parameters(n int) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1f B", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f M", float64(n)/1e6)
	}
	return fmt.Sprintf("%.0f k", float64(n)/1e3)
}
