package testserver

import (
	"net/url"
	"os"
	"testing"
)

// SQLServer is the URL of the SQL Server that HOLDFAST_TEST_SQLSERVER names, of a user who may do everything in its
// database, with these parameters too: names and values in turn. Without one the test is skipped: none can be
// installed here.
func SQLServer(t testing.TB, params ...string) string {
	t.Helper()
	at := os.Getenv("HOLDFAST_TEST_SQLSERVER")
	if at == "" {
		t.Skip("no SQL Server is named: HOLDFAST_TEST_SQLSERVER")
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("HOLDFAST_TEST_SQLSERVER is no URL") // it may hold a password
	}
	query := u.Query()
	for i := 0; i < len(params); i += 2 {
		query.Set(params[i], params[i+1])
	}
	u.RawQuery = query.Encode()
	return u.String()
}
