package mutant

import (
	"fmt"
	"path"
	"strings"
)

// Scripts and statements are files in the binary, which store/embedded reads. A mark in such a
// file is a comment at the end of a line, --mutant:NAME. Mutants replace or delete that line in
// the text after it was read. So mutants of many files are in one build.

// loader is the mark of the return statement that returns the text of such a file.
const loader = "embedded-text"

func isText(file string) bool { return path.Ext(file) == ".lua" || path.Ext(file) == ".sql" }

// inCode turns edits of scripts and statements into edits of the code that reads them, and
// leaves the other edits as they are.
func (o *Overlay) inCode(edits []Edit) ([]Edit, error) {
	all := make([]Edit, len(edits))
	for i, e := range edits {
		all[i] = e
		file, err := o.place(e)
		if err != nil {
			return nil, err
		}
		if !isText(file) {
			continue
		}
		text, err := o.edited(file, nil)
		if err != nil {
			return nil, err
		}
		old, new, err := lineAt(text, e)
		if err != nil {
			return nil, fmt.Errorf("%w, in %s", err, file)
		}
		is := fmt.Sprintf("strings.Replace(WAS, %q, %q, 1)", old, new)
		if cond := e.Do.cond; cond != "" {
			is = fmt.Sprintf("map[bool]string{false: WAS, true: %s}[%s]", is, cond)
		}
		all[i] = At(loader, Return(is))
		all[i].Under = e.Under
	}
	return all, nil
}

// lineAt returns the line with the mark, and what the edit replaces it with.
func lineAt(text string, e Edit) (old, new string, err error) {
	if e.Do.kind != opLine && e.Do.If("") != Delete() {
		return "", "", fmt.Errorf("the line of the mark mutant:%s can only be replaced or deleted", e.Mark)
	}
	for line := range strings.Lines(text) {
		m := markPattern.FindStringSubmatch(line)
		if m == nil || m[1] != e.Mark {
			continue
		}
		line = strings.TrimSpace(line)
		was, _, _ := strings.Cut(line, "--")
		if was = strings.TrimSpace(was); was == "" || !strings.HasSuffix(line, "--mutant:"+e.Mark) {
			return "", "", fmt.Errorf("the mark mutant:%s is not at the end of a line of code, behind --", e.Mark)
		}
		return line, wasPattern.ReplaceAllLiteralString(e.Do.text, was), nil
	}
	return "", "", fmt.Errorf("the mark mutant:%s is not there", e.Mark)
}
