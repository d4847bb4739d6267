package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// tag makes all modules refer to each other by the version, commits that, and tags each published module with the tag
// that the go command expects: the directory, a slash, the version. Without do it prints what it would do.
func tag(out io.Writer, all []*module, to string, do bool) error {
	from, err := version()
	if err != nil {
		return err
	}
	changed := map[string][]byte{}
	work, err := os.ReadFile("go.work")
	if err != nil {
		return err
	}
	changed["go.work"] = bytes.ReplaceAll(work, []byte(" "+from+" => "), []byte(" "+to+" => "))
	for _, m := range all {
		file := filepath.Join(m.dir, "go.mod")
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		edited, err := at(text, to)
		if err != nil {
			return err
		}
		if !bytes.Equal(text, edited) {
			changed[file] = edited
		}
	}
	var files, tags []string
	for file := range changed {
		files = append(files, file)
	}
	slices.Sort(files)
	for _, m := range all {
		if !slices.Contains(unpublished, m.dir) {
			tags = append(tags, strings.TrimPrefix(m.dir+"/"+to, "./"))
		}
	}
	steps := [][]string{{"git", "commit", "-m", "Release " + to, "--"}}
	steps[0] = append(steps[0], files...)
	for _, name := range tags {
		steps = append(steps, []string{"git", "tag", "-a", "-m", "holdfast " + to, name})
	}
	fmt.Fprintf(out, "in %s: %s becomes %s\n", strings.Join(files, " "), from, to)
	if do {
		if status, err := exec.Command("git", "status", "--porcelain").Output(); err != nil || len(status) > 0 {
			return fmt.Errorf("there are uncommitted changes, or no repository: %v", err)
		}
		for file, text := range changed {
			if err := os.WriteFile(file, text, 0o644); err != nil {
				return err
			}
		}
	}
	for _, step := range steps {
		fmt.Fprintln(out, strings.Join(step, " "))
		if !do {
			continue
		}
		if printed, err := exec.Command(step[0], step[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(step, " "), err, printed)
		}
	}
	fmt.Fprintf(out, "push them in one go: git push --atomic origin HEAD %s\n", strings.Join(tags, " "))
	return nil
}
