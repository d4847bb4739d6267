// Package embedded reads the scripts and statements that stores have as files in
// the binary. It is for the stores of this project, and unstable: it may change in
// any release.
package embedded

import (
	"io/fs"
	"strings"
)

// Text returns a file as it is sent to a server. The line "--@ NAME" is replaced
// by that file. Comments are removed, and with them the marks of mutants: a
// comment begins with "--" and ends with its line, and no string has "--" in it.
// The file is taken from the first directory that has it. Text panics if no
// directory has it.
func Text(name string, dirs ...fs.FS) string {
	var out strings.Builder
	add(&out, name, dirs)
	return out.String()
}

func add(out *strings.Builder, name string, dirs []fs.FS) {
	text := read(name, dirs)
	out.Grow(len(text))
	for line := range strings.Lines(text) {
		if other, ok := strings.CutPrefix(line, "--@ "); ok {
			add(out, strings.TrimSpace(other), dirs)
			continue
		}
		code, _, _ := strings.Cut(line, "--")
		if code = strings.TrimSpace(code); code != "" {
			out.WriteString(code)
			out.WriteByte('\n')
		}
	}
}

// read returns the file as it is. Package mutant changes marked lines here.
func read(name string, dirs []fs.FS) string {
	for _, dir := range dirs {
		if text, err := fs.ReadFile(dir, name); err == nil {
			return string(text) //mutant:embedded-text
		}
	}
	panic("no file " + name + " in the binary")
}

// Dir returns a directory of embedded files. It panics if its name is not valid.
func Dir(files fs.FS, name string) fs.FS {
	dir, err := fs.Sub(files, name)
	if err != nil {
		panic(err)
	}
	return dir
}
