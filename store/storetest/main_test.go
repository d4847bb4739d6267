package storetest_test

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "32") // the tests mostly wait; a flag on the command line takes precedence
	flag.Parse()
	os.Exit(m.Run())
}
