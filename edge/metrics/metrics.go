// Package metrics shows a run, and the process behind it, to Prometheus, and to whoever asks whether it is well.
//
// Nothing is counted here: a scrape reads the orchestrator's View and the vitals of the process at that moment, so a run
// pays nothing for being watched. Names begin with iota_ and end with their unit. Labels take few values: stages, phases,
// states and kinds of task. There is no series per miner: keys come and go over a long run, and each would leave its series
// behind; iota status and /api/v1/view have every miner.
package metrics

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler serves /metrics with what the collectors give, beside Go's own.
func Handler(list ...prometheus.Collector) (http.Handler, error) {
	r := prometheus.NewPedanticRegistry()
	list = append(list, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, c := range list {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
	}
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 5 * time.Second}), nil
}

// Check says in words why something is not well, "" if it is.
type Check func() string

// ServeHTTP answers ok, or 503 and the reason.
func (c Check) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	reason := c()
	if reason != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, reason)
		return
	}
	fmt.Fprintln(w, "ok")
}

// series is one metric, whose value follows from a T.
type series[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(T) float64
}

func counter[T any](name, help string, value func(T) float64) series[T] {
	return series[T]{describe(name, help), prometheus.CounterValue, value}
}

func gauge[T any](name, help string, value func(T) float64) series[T] {
	return series[T]{describe(name, help), prometheus.GaugeValue, value}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("iota_"+name, help, labels, nil)
}

func (s series[T]) send(ch chan<- prometheus.Metric, from T) {
	ch <- prometheus.MustNewConstMetric(s.desc, s.kind, s.value(from))
}

func number(ch chan<- prometheus.Metric, d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, kind, value, labels...)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
