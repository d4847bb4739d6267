package storetest_test

import (
	"flag"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Set("test.parallel", "32") // they wait; the command line comes before
	flag.Parse()
	os.Exit(m.Run())
}
