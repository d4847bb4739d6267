package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/internal/testserver"
	"github.com/holdfast-go/holdfast/store"
)

// A sessions is a database of its own, whose sessions keep locks.
type sessions struct {
	t     *testing.T
	admin *pgx.Conn
	store string
}

// sharedPostgres is the variable with the address of a server that a test binary with
// a mutant uses instead of starting its own.
const sharedPostgres = "HOLDFAST_TEST_SHARED_POSTGRES"

func newSessions(t *testing.T) *sessions {
	t.Helper()
	addr := os.Getenv(sharedPostgres)
	if addr == "" {
		addr = testserver.SharedPostgres(t)
	}
	admin, err := pgx.Connect(t.Context(), testserver.PostgresURL(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Close(t.Context()) })
	name := "test_" + store.NewProcess().String()
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	return &sessions{t, admin, "postgres+session://postgres@" + addr + "/" + name + "?sslmode=disable"}
}

// terminate ends the sessions of the database that hold a lock.
func (s *sessions) terminate() {
	s.t.Helper()
	var n int
	err := s.admin.QueryRow(s.t.Context(), `SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
		WHERE l.locktype = 'advisory' AND d.datname = split_part(split_part($1, '?', 1), '/', 4)`, s.store).Scan(&n)
	if err != nil || n == 0 {
		s.t.Fatalf("terminated %d sessions, %v", n, err)
	}
}

func TestSession_TheCommandGetsNoTTLAndNoToken(t *testing.T) {
	t.Parallel()
	s := newSessions(t)
	show := []string{"-n", "--", "sh", "-c", `echo "$HOLDFAST_NAME ${HOLDFAST_TOKEN-none} $HOLDFAST_TTL_MS" >told`}
	plain := begin(t, s.store, show...)
	plain.exits(0)
	if told := plain.text("told"); told != "x none 0\n" {
		t.Errorf("without tokens: the command got %q", told)
	}
	several := begin(t, s.store, "y", "-n", "--", "sh", "-c", `echo "${HOLDFAST_TOKEN-none} $HOLDFAST_LEASES" >told`)
	several.exits(0)
	if told := several.text("told"); strings.Contains(told, "token") || !strings.HasPrefix(told, `none [{"name":"x","id":"`) {
		t.Errorf("several names without tokens: the command got %q", told)
	}
	var before string
	for range 2 {
		with := begin(t, s.store+"&tokens=1", show...)
		with.exits(0)
		told := strings.Fields(with.text("told"))
		if len(told) != 3 || told[1] <= before || len(told[1]) < 16 || told[2] != "0" {
			t.Errorf("with tokens: the command got %q, after %q", told, before)
			break
		}
		before = told[1]
	}
}

func TestSession_WhatNeedsATTLIsWrongUsage(t *testing.T) {
	t.Parallel()
	s := newSessions(t)
	for _, flags := range [][]string{{"--ttl", "30"}, {"--at-least-for", "1"}, {"--slots", "1/3"}, {"--give-up", "USR1"}} {
		r := begin(t, s.store, append(flags, "--", "touch", "ran")...)
		r.exits(exitUsage)
		if r.exists("ran") || !strings.Contains(r.text("stderr"), "advisory lock") && !strings.Contains(r.text("stderr"), "cannot pass a request") {
			t.Errorf("%v: got stderr %q", flags, r.text("stderr"))
		}
	}
	for _, args := range [][]string{{"ls"}, {"show", "x"}, {"check", "x", "--id", strings.Repeat("0", 32)}, {"break", "x", "--id", strings.Repeat("0", 32), "--token", "1", "--reason", "r"}} {
		out, err := exec.Command("holdfast", append(args, "--store", s.store)...).CombinedOutput()
		ended, ok := err.(*exec.ExitError)
		if !ok || ended.ExitCode() != exitUsage || !strings.Contains(string(out), "pg_locks") {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
}

// A loss is noticed only afterwards, so there is no time for TERM.
func TestSession_ALossKillsAtOnce(t *testing.T) {
	t.Parallel()
	s := newSessions(t)
	r := begin(t, s.store, "-k", "10", "--", "sh", "-c", `trap 'echo TERM >>termed' TERM; setsid sleep 1000 & touch in; while :; do sleep 0.1; done`)
	soon(t, "the command runs", func() bool { return r.exists("in") })
	if code := obtained(t, s.store, "-n"); code != exitHeld {
		t.Errorf("another process gets exit code %d, want %d", code, exitHeld)
	}
	s.terminate()
	r.exits(exitLost)
	r.nothingLeft()
	if r.exists("termed") || !strings.Contains(r.text("stderr"), "terminating connection") {
		t.Errorf("got TERM %v; stderr %q", r.exists("termed"), r.text("stderr"))
	}
	soon(t, "the name is free", func() bool { return obtained(t, s.store, "-n") == 0 })
}

// If the engine is killed, no other process may get the lock before the front has
// killed the rest: the front keeps the session.
func TestSession_TheNextIsGrantedOnlyWhenAllIsKilled(t *testing.T) {
	t.Parallel()
	s := newSessions(t)
	r := beginTree(t, s.store)
	r.stop(r.front()) // so that killing takes a while
	r.kill(r.engine())
	if code := refusedInTime(t, s.store); code != exitHeld {
		t.Errorf("while all processes run, another gets exit code %d, want %d", code, exitHeld)
	}
	next := begin(t, s.store, "-v", "--", "sh", "-c", `grep -lsz "^`+r.mark+`$" /proc/[0-9]*/environ >found; touch looked`)
	soon(t, "the next process waits", func() bool { return strings.Contains(next.text("stderr"), "waiting") })
	r.signal(r.front(), syscall.SIGCONT)
	next.exits(0)
	// The front notices either the end of its engine or its silence first.
	if code := r.code(); code != exitInternal && code != exitLost {
		t.Errorf("got exit code %d, want %d or %d", code, exitInternal, exitLost)
	}
	if found := strings.Fields(next.text("found")); !next.exists("looked") || len(found) > 1 {
		t.Errorf("these processes still ran: %v", found)
	}
}

// A silent engine might not notice a loss, so it is ended.
func TestSession_AStoppedEngineEndsTheCommand(t *testing.T) {
	t.Parallel()
	s := newSessions(t)
	r := beginBeat(t, s.store)
	time.Sleep(2 * silence / 3) // an engine that reports is not ended, however long it takes
	stopped := time.Now()
	r.stop(r.engine())
	next := begin(t, s.store, "-w", "1m", "--", "beat", "beat")
	r.exits(exitLost)
	if after := time.Since(stopped); after < silence/4 { // on a busy machine it was silent for a while before that, too
		t.Errorf("the command ended after %v, want after the silence", after)
	}
	if said := r.text("stderr"); !strings.Contains(said, "was stopped or hung") || strings.Contains(said, "expired") {
		t.Errorf("a lock without expiry: got stderr %q", said)
	}
	r.nothingLeft()
	r.before(next)
}

func TestSession_ARefusalNamesTheHolder(t *testing.T) {
	t.Parallel()
	s := newSessions(t)
	r := begin(t, s.store, "--", "sh", "-c", "touch in; until [ -e out ]; do sleep 0.1; done")
	soon(t, "the command runs", func() bool { return r.exists("in") })
	for _, how := range []string{"-n", "-w 4"} {
		next := begin(t, s.store, append(strings.Fields(how), "--", "true")...)
		next.exits(exitHeld)
		if said := next.text("stderr"); !strings.Contains(said, "(sh)") || !strings.Contains(said, "session ") || strings.Contains(said, "since") {
			t.Errorf("%s: got stderr %q", how, said)
		}
	}
	refused := begin(t, s.store, "-n", "--json", "--", "true")
	refused.exits(exitHeld)
	if said := refused.text("stderr"); !strings.Contains(said, `"holders":[{"id":"","token":0,"owner":{"host":`) || !strings.Contains(said, `"since":"","expires_ms":0}`) {
		t.Errorf("--json: got %s", said)
	}
	r.touch("out")
	r.exits(0)
}

// No address is printed if the page could never show anything.
func TestSession_UIHasNoPage(t *testing.T) {
	t.Parallel()
	s := newSessions(t)
	var said strings.Builder
	cmd := exec.Command("holdfast", "ui", "--store", s.store)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if ended, ok := err.(*exec.ExitError); !ok || ended.ExitCode() != exitUsage || len(out) > 0 || !strings.Contains(said.String(), "pg_locks") || strings.Contains(said.String(), "browser") {
		t.Errorf("got %v: %s%s", err, out, said.String())
	}
}
