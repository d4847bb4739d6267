package all_test

import (
	"os"
	"testing"

	"github.com/holdfast-go/holdfast/internal/testserver"
	_ "github.com/holdfast-go/holdfast/open/all"
)

func TestMain(m *testing.M) { os.Exit(testserver.Main{M: m}.Run()) }
