package journal

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed schema/1.sql
var schema1 string

// schemas take a database from each format to the next one; the first finds nothing there.
var schemas = []string{schema1}

// What the server's errors are known by.
const (
	lockTimeout     = "55P03"
	uniqueViolation = "23505"
)

// configure returns how to connect to target. Its errors do not show what may be a part of a password.
func configure(target string, t terms) (*pgxpool.Config, error) {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("not the URL of a Postgres database, as postgres://USER:PASSWORD@HOST:PORT/DATABASE is")
	}
	config, err := pgxpool.ParseConfig(target)
	if err != nil {
		if cause := errors.Unwrap(err); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("settings in the URL of the database: %s", oneLine(err.Error()))
	}
	config.MaxConns = 4 // a writer, a reader and the lease at the same time, and one to spare
	config.ConnConfig.ConnectTimeout = tryFor / 2
	for name, value := range map[string]string{
		"synchronous_commit":                  "on",
		"default_transaction_isolation":       "read committed",
		"default_transaction_read_only":       "off",
		"lock_timeout":                        fmt.Sprint(t.stuck.Milliseconds()),
		"idle_in_transaction_session_timeout": fmt.Sprint(t.stuck.Milliseconds()),
		"application_name":                    "iota",
	} {
		config.ConnConfig.RuntimeParams[name] = value
	}
	return config, nil
}

// place names a database and the schema in it, without the password.
func place(config *pgxpool.Config) string {
	c := config.ConnConfig
	u := url.URL{Scheme: "postgres", User: url.User(c.User), Host: net.JoinHostPort(c.Host, fmt.Sprint(c.Port)), Path: "/" + c.Database}
	if strings.HasPrefix(c.Host, "/") {
		u.Host, u.RawQuery = "", "host="+c.Host
	}
	if path := c.RuntimeParams["search_path"]; path != "" {
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&search_path="+path, "&")
	}
	return u.String()
}

// migrate takes the database to the newest format, one process at a time. It refuses one that is newer still.
func (p *Postgres) migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	var there bool
	if err := p.pool.QueryRow(ctx, `SELECT to_regclass('iota_format') IS NOT NULL`).Scan(&there); err != nil {
		return err
	}
	if there { // the usual case, which needs no right to make tables
		if version, err := formatOf(ctx, p.pool); err != nil || version == len(schemas) {
			return err
		}
	}
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('iota journal'))`); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS iota_format (version bigint NOT NULL)`); err != nil {
			return err
		}
		version, err := formatOf(ctx, tx)
		if err != nil || version == len(schemas) {
			return err
		}
		for _, schema := range schemas[version:] {
			if _, err := tx.Exec(ctx, schema); err != nil {
				return foreign(err)
			}
		}
		_, err = tx.Exec(ctx, `WITH old AS (DELETE FROM iota_format) INSERT INTO iota_format VALUES ($1)`, len(schemas))
		return err
	})
}

// formatOf returns the format of the database, 0 for an empty one.
func formatOf(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}) (version int, err error) {
	if err := q.QueryRow(ctx, `SELECT coalesce(max(version), 0) FROM iota_format`).Scan(&version); err != nil {
		return 0, foreign(err)
	}
	if version < 0 || version > len(schemas) {
		return 0, fmt.Errorf("its format is %d, and this build knows no newer one than %d: use the build that made it: %w", version, len(schemas), ErrForeign)
	}
	return version, nil
}

// foreign recognises tables that have our names and are not ours: they exist already, or lack a column.
func foreign(err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == "42P07" || refused.Code == "42703") {
		return fmt.Errorf("%s: choose another database or search_path: %w", refused.Message, ErrForeign)
	}
	return err
}

// passing reports whether an error of the driver or the server may be gone at the next try. No error of ours is.
func passing(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		switch refused.Code {
		case lockTimeout, "53300", "25006": // too many connections; a database that is read-only until it is the primary
			return true
		}
		return slices.Contains([]string{"08", "40", "57"}, refused.Code[:min(2, len(refused.Code))]) // connection, conflict, restart
	}
	var network net.Error
	return errors.As(err, &network) || pgconn.SafeToRetry(err) || errors.Is(err, pgconn.ErrConnClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded)
}

// plain returns an error of the driver or the server as one line that says what to do where that is known, and errors
// of ours as they are.
func plain(err error) error {
	var refused *pgconn.PgError
	var network *net.OpError
	switch {
	case errors.As(err, &refused):
		text := oneLine(refused.Message)
		switch refused.Code {
		case "28P01", "28000":
			return fmt.Errorf("%s: check user and password in its URL", text)
		case "3D000":
			return fmt.Errorf("%s: create it first (createdb)", text)
		case "3F000":
			return fmt.Errorf("%s: create the schema of search_path first (CREATE SCHEMA)", text)
		}
		return fmt.Errorf("%s (SQLSTATE %s)", text, refused.Code)
	case errors.As(err, &network):
		return errors.New(oneLine(network.Error()))
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the server does not answer: %w", context.DeadlineExceeded)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, pgconn.ErrConnClosed):
		return errors.New("the server ended the connection")
	case strings.Contains(err.Error(), "\n"):
		return errors.New(oneLine(err.Error()))
	}
	return err
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
