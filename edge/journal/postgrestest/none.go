//go:build !unix

// Package postgrestest gives tests a Postgres server. Here it knows no way to start one.
package postgrestest

import "testing"

// Password is that of the servers that are started elsewhere.
const Password = "s3cret-Pa55word"

// URL skips the test.
func URL(t testing.TB) string {
	t.Helper()
	t.Skip("no Postgres: tests know how to start one on unix only")
	return ""
}

// Exec is never called, as URL skips the test.
func Exec(testing.TB, string, ...string) {}
