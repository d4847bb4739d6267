package open_test

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main{M: m}.Run()) }
