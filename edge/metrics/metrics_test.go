package metrics_test

import (
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/iota-train/iota/edge/metrics"
	"github.com/iota-train/iota/edge/node"
	"github.com/iota-train/iota/role/orchestrator"
)

// run is a collector over made-up values.
func run(view orchestrator.View, vitals node.Vitals) *metrics.Run {
	return &metrics.Run{
		View: func() orchestrator.View { return view }, Vitals: func() node.Vitals { return vitals },
		Blobs: func() uint64 { return 4096 }, Version: "v1",
	}
}

func someView(miners int) orchestrator.View {
	v := orchestrator.View{Run: "r", Phase: orchestrator.Sharing, Now: 10 * time.Second, Since: 4 * time.Second, Until: 30 * time.Second,
		Epoch: 1, Epochs: []orchestrator.EpochReport{{Loss: 2.5}}, Stages: []orchestrator.StageView{{Queue: 3}, {Index: 1}}}
	v.Counters.Tokens, v.Counters.EvalCount, v.Counters.LossEval = 512, 1, 2.25
	v.Ledger.Issued = 2_500_000
	for range miners {
		v.Miners = append(v.Miners, orchestrator.MinerView{State: "training"})
	}
	return v
}

func someVitals() node.Vitals {
	return node.Vitals{Serving: true, Seq: 7, Groups: node.Histogram{Bounds: []float64{1, 2}, Counts: []uint64{1, 0, 2}, Sum: 11},
		Durable: node.Histogram{Bounds: []float64{1}, Counts: []uint64{0, 0}}}
}

func gather(t *testing.T, list ...prometheus.Collector) (text string, names []string) {
	t.Helper()
	h, err := metrics.Handler(list...)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	text = w.Body.String()
	for _, m := range regexp.MustCompile(`(?m)^(?:# TYPE )?(iota_\w+)`).FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return text, names
}

func TestAScrapeSaysWhatTheViewSays(t *testing.T) {
	text, _ := gather(t, run(someView(5), someVitals()))
	for _, line := range []string{
		`iota_tokens_total 512`, `iota_epochs_total 1`, `iota_phase{phase="Sharing"} 1`, `iota_phase{phase="Training"} 0`,
		`iota_phase_seconds 6`, `iota_phase_deadline_seconds 20`, `iota_loss_nats 2.5`, `iota_loss_eval_nats 2.25`, `iota_stage_queue{stage="0"} 3`,
		`iota_miners{state="training"} 5`, `iota_miners{state="absent"} 0`, `iota_ledger_issued_units_total 2.5`, `iota_journal_seq 7`,
		`iota_journal_group_events_bucket{le="2"} 1`, `iota_journal_group_events_bucket{le="+Inf"} 3`, `iota_journal_group_events_sum 11`,
		`iota_blob_bytes 4096`, `iota_info{numerics="",preset="",run="r",version="v1"} 1`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if !strings.Contains(text, "\ngo_goroutines ") {
		t.Error("nothing of Go's own")
	}
}

func TestTheNumberOfSeriesDoesNotGrowWithTheMiners(t *testing.T) {
	_, few := gather(t, run(someView(1), someVitals()))
	_, many := gather(t, run(someView(1000), someVitals()))
	if len(few) != len(many) {
		t.Errorf("%d series with one miner, %d with a thousand", len(few), len(many))
	}
}

func TestARunWithoutAnEpochHasNoLoss(t *testing.T) {
	text, _ := gather(t, run(orchestrator.View{}, someVitals()))
	if strings.Contains(text, "iota_loss") {
		t.Error("a loss of nothing is shown")
	}
}

func TestNamesFollowTheConventions(t *testing.T) {
	l := node.Labours{}
	l.Tasks[1] = 3
	for _, c := range []prometheus.Collector{run(someView(3), someVitals()), &metrics.Participant{Labours: func() node.Labours { return l }}} {
		problems, err := testutil.CollectAndLint(c)
		if err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
	}
}

// TestAlarmsUseMetricsThatExist reads the rules for Prometheus, and holds the names in them against a scrape; and every
// alarm is in the operator's guide.
func TestAlarmsUseMetricsThatExist(t *testing.T) {
	rules, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, names := gather(t, run(someView(1), someVitals()))
	_, more := gather(t, &metrics.Participant{Labours: func() node.Labours { return node.Labours{} }})
	names = append(names, more...)
	for _, name := range regexp.MustCompile(`\biota_\w+`).FindAllString(string(rules)+string(guide), -1) {
		if !slices.Contains(names, name) {
			t.Errorf("there is no metric %s", name)
		}
	}
	for _, alarm := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		if !strings.Contains(string(guide), "`"+alarm[1]+"`") {
			t.Errorf("docs/operations.md says nothing of the alarm %s", alarm[1])
		}
	}
}

func TestHealthNamesWhatIsWrong(t *testing.T) {
	stuck := run(orchestrator.View{}, node.Vitals{Serving: true, Still: time.Minute})
	closed := run(orchestrator.View{}, node.Vitals{Still: time.Minute})
	well := run(orchestrator.View{}, node.Vitals{Serving: true, Still: time.Millisecond})
	lost := &metrics.Participant{Labours: func() node.Labours { return node.Labours{} }}
	for name, c := range map[string]struct {
		check metrics.Check
		code  int
		word  string
	}{
		"stuck":             {stuck.Alive, 503, "not moved"},
		"stuck, ready":      {stuck.Ready, 503, "not moved"},
		"closed":            {closed.Alive, 200, "ok"},
		"closed, ready":     {closed.Ready, 503, "no participants"},
		"well":              {well.Alive, 200, "ok"},
		"well, ready":       {well.Ready, 200, "ok"},
		"participant":       {lost.Alive, 200, "ok"},
		"participant ready": {lost.Ready, 503, "does not have"},
	} {
		w := httptest.NewRecorder()
		c.check.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.word) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}
