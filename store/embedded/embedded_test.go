package embedded

import (
	"testing"
	"testing/fstest"
)

func TestATextIsAssembledWithoutItsComments(t *testing.T) {
	t.Parallel()
	own := fstest.MapFS{
		"lua/ask.lua":   {Data: []byte("-- Asks.\n--@ queue.lua\n\n  -- A comment.\nif a then --mutant:a\n\treturn 1 -- one\nend")},
		"lua/queue.lua": {Data: []byte("local q\n--@ save.lua\n")},
	}
	shared := fstest.MapFS{
		"save.lua": {Data: []byte("save()\n")}, "queue.lua": {Data: []byte("another\n")},
	}
	if have, want := Text("ask.lua", Dir(own, "lua"), shared), "local q\nsave()\nif a then\nreturn 1\nend\n"; have != want {
		t.Errorf("got %q, want %q", have, want)
	}
}
