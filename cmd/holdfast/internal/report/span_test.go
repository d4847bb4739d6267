package report

import (
	"strings"
	"testing"
)

func TestATraceparentIsReadAsW3CWritesIt(t *testing.T) {
	t.Parallel()
	const trace, id = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for text, ok := range map[string]bool{
		"00-" + trace + "-" + id + "-00":                      true,
		"01-" + trace + "-" + id + "-01-more":                 true,
		"00-" + trace + "-" + id + "-01-more":                 false,
		"ff-" + trace + "-" + id + "-01":                      false,
		"00-" + strings.ToUpper(trace) + "-" + id + "-01":     false,
		"00-" + strings.Repeat("0", 32) + "-" + id + "-01":    false,
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01": false,
		"00-" + trace + "-" + id:                              false,
		"":                                                    false,
	} {
		s := NewSpan(func(name string) string { return map[string]string{"TRACEPARENT": text}[name] })
		if is := s.Trace == trace; is != ok || len(s.Trace) != 32 || len(s.ID) != 16 || s.ID == id {
			t.Errorf("%q: got %+v", text, s)
		}
	}
}
