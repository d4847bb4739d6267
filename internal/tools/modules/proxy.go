package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	modpath "golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// proxy writes to a directory what a module proxy has for the modules in a version, from the
// files of the tree that git tracks or would add. Use it with GOPROXY=file://DIR,...
func proxy(all []*module, dir, version string) error {
	files, err := tracked()
	if err != nil {
		return err
	}
	for _, m := range shipped(all) {
		if err := m.pack(all, files, dir, version); err != nil {
			return fmt.Errorf("pack %s: %w", m.path, err)
		}
	}
	return nil
}

// tracked returns the files of the tree, with slashes.
func tracked() (files []string, err error) {
	out, err := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	for file := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if _, err := os.Stat(file); err == nil { // otherwise it was removed, and that is not committed yet
			files = append(files, file)
		}
	}
	return files, nil
}

// pack writes what a proxy has for a module.
func (m *module) pack(all []*module, files []string, dir, version string) error {
	text, err := os.ReadFile(filepath.Join(m.dir, "go.mod"))
	if err != nil {
		return err
	}
	if text, err = at(text, version); err != nil {
		return err
	}
	escaped, err := modpath.EscapePath(m.path)
	if err != nil {
		return err
	}
	to := filepath.Join(dir, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	mod := filepath.Join(to, version+".mod")
	if err := os.WriteFile(mod, text, 0o644); err != nil {
		return err
	}
	in := []zip.File{packed{"go.mod", mod}}
	for _, file := range files {
		if below, ok := m.has(all, file); ok && below != "go.mod" {
			in = append(in, packed{below, file})
		}
	}
	if m.dir != "." { // like a real proxy
		in = append(in, packed{"LICENSE", "LICENSE"})
	}
	var archive bytes.Buffer
	if err := zip.Create(&archive, modpath.Version{Path: m.path, Version: version}, in); err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".zip": archive.Bytes()} {
		if err := os.WriteFile(filepath.Join(to, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether a file of the repository belongs to the module, and returns its path in
// the module.
func (m *module) has(all []*module, file string) (below string, ok bool) {
	if m.dir == "." {
		below = file
	} else if below, ok = strings.CutPrefix(file, m.dir+"/"); !ok {
		return "", false
	}
	for _, other := range all {
		if other != m && len(other.dir) > len(m.dir) && strings.HasPrefix(file, other.dir+"/") {
			return "", false
		}
	}
	return below, published(below)
}

// published is true except for files that no module contains.
func published(file string) bool {
	return file != "go.work" && file != "go.work.sum" && !strings.HasPrefix(file, ".")
}

// packed is a file of a module.
type packed struct{ path, file string }

func (p packed) Path() string                 { return p.path }
func (p packed) Lstat() (os.FileInfo, error)  { return os.Lstat(p.file) }
func (p packed) Open() (io.ReadCloser, error) { return os.Open(p.file) }
