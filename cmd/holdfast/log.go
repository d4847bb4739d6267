package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
)

// logger returns the logger of the library: all records if verbose, else warnings for people.
func logger(verbose bool) *slog.Logger {
	if verbose {
		return slog.New(detailed{})
	}
	return slog.New(&plain{told: map[string]bool{}})
}

// plain is the log handler without -v. It prints each warning once, since cron mails what is on
// stderr. Warnings about the store and its settings, not this run, are left to doctor and -v.
// Errors are left to the command, which reports them in its own words.
type plain struct {
	mu   sync.Mutex
	told map[string]bool
}

func (p *plain) Enabled(_ context.Context, level slog.Level) bool { return level == slog.LevelWarn }

func (p *plain) Handle(_ context.Context, r slog.Record) error {
	text, settings := warning(r)
	p.mu.Lock()
	told := settings || p.told[text] //mutant:cmd-settings-are-doctors
	p.told[text] = true
	p.mu.Unlock()
	if !told {
		tell("%s", text)
	}
	return nil
}

// warning returns the text of a record for people: the name, what happened and why. settings
// reports whether it is about the store's settings.
func warning(r slog.Record) (text string, settings bool) {
	text = strings.TrimPrefix(r.Message, linePrefix)
	var err error
	name, where := "", ""
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "err":
			err, _ = a.Value.Any().(error)
		case "name":
			name = printable(a.Value.String())
		case "store":
			where = a.Value.String()
		case "see":
			settings = true
		}
		return true
	})
	if name != "" {
		text = name + ": " + text
	}
	if err != nil {
		text += ": " + cause(err, where, 0)
	}
	return text, settings
}

func (p *plain) WithAttrs([]slog.Attr) slog.Handler { return p }
func (p *plain) WithGroup(string) slog.Handler      { return p }

// detailed is the log handler with -v. It prints each record on a line that begins like all our
// lines. Warnings are cut to the length of a line. Other records are printed whole, with ids and
// errors of drivers.
type detailed struct{}

func (detailed) Enabled(context.Context, slog.Level) bool { return true }

func (detailed) Handle(_ context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn { //mutant:cmd-verbose-warnings-are-short
		const see = "; see 'holdfast doctor'"
		text, settings := warning(r)
		if settings {
			text = shorten(plainText(text), lineLength-len(linePrefix)-len(see)) + see
		}
		_, err := fmt.Fprintln(stderr, asLine(text))
		return err
	}
	name, text := "", strings.TrimPrefix(r.Message, linePrefix)
	r.Attrs(func(a slog.Attr) bool {
		value := printable(a.Value.String())
		switch {
		case a.Key == "name":
			name = value + ": "
			return true
		case value == a.Value.String() && (value == "" || strings.ContainsAny(value, " =")):
			value = strconv.Quote(value)
		}
		text += " " + a.Key + "=" + value
		return true
	})
	_, err := fmt.Fprintln(stderr, linePrefix+name+plainText(text)) //mutant:cmd-verbose-lines-are-ours
	return err
}

func (d detailed) WithAttrs([]slog.Attr) slog.Handler { return d }
func (d detailed) WithGroup(string) slog.Handler      { return d }
