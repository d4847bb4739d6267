package mssqlstore

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/microsoft/go-mssqldb/msdsn"

	"github.com/holdfast-go/holdfast/store"
)

const secret = "p4ss/w:rd@%{}s3cret"

func TestAURLIsReadAsTheDriverReadsIt(t *testing.T) {
	t.Parallel()
	c, o, err := parseURL("SQLServer://u:p4ss%2Fw%3Ard%40%25%7B%7Ds3cret@db:1500?Database=shop&encrypt=true&Dial+Timeout=3&schema=ops&table=locks&app+name=nightly", &Options{Table: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Host != "db" || c.Port != 1500 || c.User != "u" || c.Password != secret || c.Database != "shop" || c.DialTimeout != 3*time.Second || c.Encryption != msdsn.EncryptionRequired || c.TrustServerCertificate || c.AppName != "nightly" {
		t.Errorf("%+v", c)
	}
	if o.Schema != "ops" || o.Table != "locks" {
		t.Errorf("%+v", o)
	}
	c, o, err = parseURL("sqlserver://db?database=shop", nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Port != 1433 || c.AppName != "holdfast" || o.Schema != "" || o.Table != "" {
		t.Errorf("got %+v, %+v", c, o)
	}
	if c, _, err := parseURL("sqlserver://db/EXPRESS?database=shop", nil); err != nil || c.Instance != "EXPRESS" || c.Port != 0 {
		t.Errorf("got %+v, %v", c, err)
	}
}

// Unless told otherwise, the driver repeats a request that it could not send, and waits for an answer without limit.
func TestEachRequestIsSentOnceAndASilentServerIsGivenUp(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]time.Duration{"sqlserver://db?database=shop": 15 * time.Second, "sqlserver://db?database=shop&connection+timeout=7": 7 * time.Second} {
		c, _, err := parseURL(url, nil)
		if err != nil || !c.DisableRetry || c.ConnTimeout != want {
			t.Errorf("%s: got %+v, %v, want a timeout of %v", url, c, err, want)
		}
	}
}

// The package comment states the driver's defaults. This test checks that it is right.
func TestTheDriversDefaultsAreWhatIsDocumented(t *testing.T) {
	t.Parallel()
	c, err := msdsn.Parse("sqlserver://db?database=shop")
	if err != nil {
		t.Fatal(err)
	}
	if c.Encryption != msdsn.EncryptionOff || !c.TrustServerCertificate || c.ConnTimeout != 0 || c.KeepAlive != 30*time.Second || c.DialTimeout != 15*time.Second || c.DisableRetry || !c.MultiSubnetFailover {
		t.Errorf("%+v", c)
	}
}

func TestAWrongURLSaysWhatIsWrongAndHidesThePassword(t *testing.T) {
	t.Parallel()
	for url, says := range map[string]string{
		"sqlserver://u:secret@":                                               "no host",
		"sqlserver://u:secret@host":                                           "no database",
		"sqlserver://u:secret@host?database=":                                 "is empty",
		"sqlserver://u:secret@host:1433/db?database=d":                        "instance",
		"sqlserver://u:secret@host/a/b?database=d":                            "instance",
		"sqlserver://u:secret@a,b?database=d":                                 "several hosts",
		"sqlserver://u:secret@host?database=d&encrpyt=true":                   `no parameter "encrpyt"`,
		"sqlserver://u:secret@host?database=d&log=63":                         `no parameter "log"`,
		"sqlserver://u:secret@host?database=d&fedauth=ActiveDirectoryDefault": `no parameter "fedauth"`,
		"sqlserver://u:secret@host?database=d&encrypt=secret":                 "not those of the driver",
		"sqlserver://u:secret@host?database=d&Database=e":                     "twice",
		"sqlserver://u:secret@host?database=d&table=":                         "is empty",
		"sqlserver://u:secret@host?database=d&applicationintent=ReadOnly":     "primary",
		"sqlserver://u:secret@host?database=d#secret":                         "%23",
		"sqlserver://u:sec%ret@host?database=d":                               "cannot be read",
		"sqlserver://u:secret@host?database=%zz":                              "cannot be read",
		"mssql://u:secret@host?database=d":                                    "does not begin",
	} {
		s, err := Open(url, nil)
		if s != nil || !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, %v, want %q", url, s, err, says)
		}
	}
}

func TestBadOptionsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	for _, bad := range []Options{{Table: "1a"}, {Table: "a b"}, {Table: "a]b"}, {Table: "ä"}, {Table: strings.Repeat("a", 120)}, {Schema: "a.b"}, {Schema: "'"}, {Schema: strings.Repeat("a", 129)}} {
		if s, err := Open("sqlserver://127.0.0.1:1?database=d", &bad); s != nil || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: got %v, want ErrInvalid", bad, err)
		}
		if _, err := Schema(&bad); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("Schema of %+v: %v, want ErrInvalid", bad, err)
		}
	}
	if _, err := New(nil, nil); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("without a database: %v, want ErrInvalid", err)
	}
}
