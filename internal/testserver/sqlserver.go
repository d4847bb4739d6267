package testserver

import (
	"net/url"
	"os"
	"testing"
)

// SQLServer returns the URL of the SQL Server that HOLDFAST_TEST_SQLSERVER names, for a user with all rights in its
// database. params are names and values in turn, which are added to the URL. If the variable is not set the test is
// skipped: no SQL Server can be installed here.
func SQLServer(t testing.TB, params ...string) string {
	t.Helper()
	at := os.Getenv("HOLDFAST_TEST_SQLSERVER")
	if at == "" {
		t.Skip("no SQL Server is named: HOLDFAST_TEST_SQLSERVER")
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal("HOLDFAST_TEST_SQLSERVER is no URL") // without the value, which may contain a password
	}
	query := u.Query()
	for i := 0; i < len(params); i += 2 {
		query.Set(params[i], params[i+1])
	}
	u.RawQuery = query.Encode()
	return u.String()
}
