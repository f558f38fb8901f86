package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/iota-train/iota/role/orchestrator"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

var someView = orchestrator.View{
	Run: "c0ffee00", Preset: "tiny", Parameters: 1_177_216, Now: 42 * time.Second, Phase: orchestrator.Training, Epoch: 3,
	Reason: "until a share of 1 of every stage's miners has 16 backwards", Progress: 0.5,
	Counters: orchestrator.Counters{Tokens: 1_234_567, LossFirst: 5.5, LossEval: 2.25},
	Stages:   []orchestrator.StageView{{Index: 0, Active: 1}, {Index: 1, Active: 1}},
	Miners:   []orchestrator.MinerView{{ID: "11111111", State: "training"}, {ID: "22222222", Stage: 1, State: "absent"}},
	Epochs:   []orchestrator.EpochReport{{Epoch: 2, Loss: 2.5, Tokens: 11_264, Seconds: 1.5, Cohort: 2, Shards: 2, ShardsLost: 1}},
	Alerts:   []orchestrator.Alert{{At: 40 * time.Second, Text: "miner 2 left"}},
}

func TestBlockShowsWhatMatters(t *testing.T) {
	text := strings.Join(block(someView, rate{}, 100), "\n")
	for _, want := range []string{
		"tiny, 1.2 M parameters in 2 stages", "epoch 3    ████████████░░░░░░░░░░░░  50 %  Training", "until a share of 1",
		"loss       2.5000, on held-out text 2.2500", "tokens     1,234,567", "stage 0    1 miners  11111111 training",
		"22222222 absent", "note       miner 2 left",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestBlockFitsTheTerminal(t *testing.T) {
	for width := 21; width < 120; width++ {
		for _, line := range block(someView, rate{}, width) {
			if utf8.RuneCountInString(line) >= width {
				t.Errorf("%d characters in %d: %s", utf8.RuneCountInString(line), width, line)
			}
		}
	}
}

func TestTerminalDrawsInPlaceAndLogsGoAbove(t *testing.T) {
	var out bytes.Buffer
	s := &screen{out: &out, log: &out, terminal: true, width: func() int { return 80 }}
	s.draw([]string{"one", "two"})
	s.draw([]string{"three"})
	if _, err := s.Write([]byte("log\n")); err != nil {
		t.Fatal(err)
	}
	s.draw([]string{"four"})
	want := "one\x1b[K\ntwo\x1b[K\n\x1b[J" + "\x1b[2Athree\x1b[K\n\x1b[J" + "\x1b[1A\x1b[Jlog\n" + "four\x1b[K\n\x1b[J"
	if out.String() != want {
		t.Errorf("got %q\nwant %q", out.String(), want)
	}
}

func TestPipeGetsOneLinePerEpoch(t *testing.T) {
	var out, log bytes.Buffer
	s := &screen{out: &out, log: &log, width: func() int { return 80 }}
	var r rate
	for range 3 {
		s.show(someView, &r)
	}
	want := "epoch 2: loss 2.5000, 11,264 tokens in 1.5 s (merge 0.00 s), 2 miners merged, 1 of 2 shards lost\n"
	if out.String() != want {
		t.Errorf("got %q", out.String())
	}
	if log.String() != "note: miner 2 left\n" {
		t.Errorf("logged %q", log.String())
	}
}

func TestAlertsOnAPipeAreLateAndNotLost(t *testing.T) {
	var log bytes.Buffer
	s := &screen{out: &log, log: &log}
	v := orchestrator.View{Now: time.Second}
	for i, text := range []string{"one", "two", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"} {
		v.Now = time.Duration(i+1) * time.Second
		v.Alerts = append(v.Alerts, orchestrator.Alert{At: v.Now, Text: text})
		s.note(v)
	}
	v.Finished = true
	s.note(v)
	want := "note: one\nnote: two\nnote: three\nnote: four\nnote: five\nnote: six\n" +
		"note: seven\nnote: eight\nnote: nine\nnote: ten\nnote: eleven\nnote: twelve\n"
	if got := log.String(); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestSpeedIsThatOfTheLastNotes(t *testing.T) {
	var r rate
	for i := range 100 {
		r.add(orchestrator.View{Now: time.Duration(i) * time.Second, Counters: orchestrator.Counters{Tokens: uint64(i * i)}})
	}
	if got := r.perSecond(); got != 75+99 {
		t.Errorf("got %v", got)
	}
}

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := thousands(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	for n, want := range map[int]string{52_000: "52 k", 1_177_216: "1.2 M", 1_500_000_000: "1.5 B"} {
		if got := parameters(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
