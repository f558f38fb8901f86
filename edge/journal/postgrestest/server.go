//go:build unix

// Package postgrestest gives tests a Postgres server: the one that IOTA_POSTGRES names, or one of their own from the
// binaries of the machine. Where there is neither, they are skipped, and say so.
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Password is that of the user of every server that is started here.
const Password = "s3cret-Pa55word"

// Server is one of the test's own, on a unix socket in a folder of its own.
type Server struct {
	dir, bin string
	settings []string
	as       *syscall.Credential // nil: as who we are
	input    io.WriteCloser      // of the shell above the server; the server ends with it
	process  *exec.Cmd
}

// shared is the server of all tests of the process that do not stop it.
var shared = sync.OnceValues(func() (*Server, error) { return start("fsync=off") })

// URL returns an empty schema in a database. It is gone after the test.
func URL(t testing.TB) string {
	t.Helper()
	base := os.Getenv("IOTA_POSTGRES")
	if base == "" {
		s, err := shared()
		skip(t, err)
		base = s.URL()
	}
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal("IOTA_POSTGRES is not a URL")
	}
	schema := fmt.Sprintf("iota_test_%d_%d", os.Getpid(), time.Now().UnixNano())
	Exec(t, base, "CREATE SCHEMA "+schema)
	t.Cleanup(func() { Exec(t, base, "DROP SCHEMA "+schema+" CASCADE") })
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String()
}

// Exec runs statements.
func Exec(t testing.TB, url string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, s := range statements {
		if _, err := conn.Exec(ctx, s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// Start returns a server for a test that wants to stop it, or wants it with other settings, such as fsync=on.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := start(settings...)
	skip(t, err)
	t.Cleanup(s.remove)
	return s
}

var errMissing = errors.New("no Postgres: install it (apt-get install postgresql), or set IOTA_POSTGRES to the URL of a server")

func skip(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func start(settings ...string) (*Server, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		return nil, errMissing
	}
	s := &Server{bin: filepath.Dir(found[len(found)-1]), settings: settings}
	var err error
	if s.dir, err = os.MkdirTemp("", "postgres"); err != nil {
		return nil, err
	}
	if os.Getuid() == 0 { // as which Postgres does not run
		if err := s.giveAway(); err != nil {
			return nil, err
		}
	}
	err = s.command("sh", "-c", `printf %s "$0" >"$1/password" && exec "$2/initdb" --no-sync -A scram-sha-256 -U iota --pwfile "$1/password" -D "$1/data"`,
		Password, s.dir, s.bin).Run()
	if err == nil {
		err = s.Resume()
	}
	if err != nil {
		text, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		s.remove()
		return nil, fmt.Errorf("start Postgres: %w: %s", err, text)
	}
	return s, nil
}

// giveAway makes the folder another user's, as whom the server will run.
func (s *Server) giveAway() error {
	who, err := user.Lookup("postgres")
	if err != nil {
		if who, err = user.Lookup("nobody"); err != nil {
			return err
		}
	}
	uid, _ := strconv.Atoi(who.Uid)
	gid, _ := strconv.Atoi(who.Gid)
	s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(s.dir, uid, gid)
}

// command returns a command that runs as the server's user and writes to the log.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = s.dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	if log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
		c.Stdout, c.Stderr = log, log
	}
	return c
}

// URL returns the URL of the server's database.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://iota:%s@/postgres?host=%s", Password, url.QueryEscape(s.dir))
}

// Resume starts the server, again after Stop, and returns when it answers. The shell above it ends it when this process
// ends, however that comes.
func (s *Server) Resume() error {
	args := []string{"-c", `"$@" & read how; kill -"${how:-INT}" $!; wait; [ "$how" ] || rm -rf "$0"`, s.dir,
		filepath.Join(s.bin, "postgres"), "-D", filepath.Join(s.dir, "data"), "-c", "listen_addresses=", "-c", "unix_socket_directories=" + s.dir}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	s.process = s.command("sh", args...)
	var err error
	if s.input, err = s.process.StdinPipe(); err != nil {
		return err
	}
	if err := s.process.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL())
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop ends the server at once, as a crash does. Its folder stays.
func (s *Server) Stop() {
	io.WriteString(s.input, "QUIT\n")
	s.process.Wait()
}

// remove ends the server and deletes its folder.
func (s *Server) remove() {
	if s.input != nil {
		s.input.Close()
		s.process.Wait()
	}
	os.RemoveAll(s.dir)
}
