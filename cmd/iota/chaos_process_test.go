//go:build linux

package main

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/iota-train/iota/protocol/message"
)

// process is an iota process on this machine that can be started again with the same command. It does not outlive the
// test's process.
type process struct {
	name  string
	args  []string
	under []string // command that the process is run by, if any
	logs  string   // folder of its two files
	dir   string   // its own folder
	cmd   *exec.Cmd
	began time.Time
	ended chan struct{} // closed when it has ended
}

// start runs the command. Its output is added to that of earlier starts.
func (p *process) start(t *testing.T) {
	t.Helper()
	out, err := os.Create(p.file("out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	log, err := os.OpenFile(p.file("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	line := slices.Concat(p.under, []string{"iota"}, p.args)
	p.cmd = exec.Command(line[0], line[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = out, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.began, p.ended = time.Now(), make(chan struct{})
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait() // the exit code is in cmd
		close(ended)
	}(p.cmd, p.ended)
}

func (p *process) file(kind string) string { return filepath.Join(p.logs, p.name+"."+kind) }

// signal reaches the process, if it runs.
func (p *process) signal(s syscall.Signal) {
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s)
	}
}

// kill ends the process at once and waits for its end.
func (p *process) kill() {
	if p.cmd != nil {
		p.signal(syscall.SIGKILL)
		<-p.ended
	}
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return p.cmd != nil
	}
}

// id is what the run calls a participant, "" before it has a key.
func (p *process) id() string {
	b, err := os.ReadFile(filepath.Join(p.dir, keyName))
	seed, e := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || e != nil || len(seed) != ed25519.SeedSize {
		return ""
	}
	return message.Short(ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey))
}

// log is what the process said on standard error, over all its starts.
func (p *process) log() string {
	b, _ := os.ReadFile(p.file("log"))
	return string(b)
}

// said reports how many lines of the log have the text.
func (p *process) said(text string) int {
	n := 0
	for line := range strings.Lines(p.log()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// lastLine is what a process that failed says why.
func (p *process) lastLine() string {
	lines := strings.Split(strings.TrimSpace(p.log()), "\n")
	return lines[len(lines)-1]
}

// tail prints the end of the log.
func (p *process) tail(t *testing.T) {
	const most = 20
	lines := strings.Split(strings.TrimSpace(p.log()), "\n")
	t.Logf("---- %s\n%s", p.name, strings.Join(lines[max(0, len(lines)-most):], "\n"))
}

// firstLine waits for the first line of standard output.
func (p *process) firstLine(t *testing.T) string {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end) && p.running(); pass(20 * time.Millisecond) {
		b, _ := os.ReadFile(p.file("out"))
		if line, _, ok := strings.Cut(string(b), "\n"); ok {
			return line
		}
	}
	t.Fatalf("%s did not start: %s", p.name, p.lastLine())
	return ""
}

// command runs an iota command to its end.
func command(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	b, err := exec.CommandContext(ctx, "iota", args...).CombinedOutput()
	return strings.TrimSpace(string(b)), err
}

// pass lets real time pass: what these tests are about happens in other processes.
func pass(d time.Duration) { <-time.After(d) }
