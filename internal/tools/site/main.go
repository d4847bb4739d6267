// Command site makes a website of the repository's Markdown pages. Run it at the repository's
// root.
//
//	site DIR    check the links, and write the site to DIR; what an earlier run left there is removed
//	site -n     only check the links
//
// A link to a page, heading, file or picture that does not exist is an error, and so is a page that nothing links to;
// then nothing is written. Links to other hosts are not checked. The site needs no server: its links are relative.
// The list on the left is the section "More" of the README.
//
// Hugo was not chosen: it needs a newer Go than this repository, and pages in a separate directory, with links that
// do not work where most people read the pages, in the repository.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out io.Writer, args []string) error {
	if len(args) != 1 || args[0] == "" {
		return errors.New("usage: site DIR | site -n")
	}
	root, err := os.OpenRoot(".")
	if err != nil {
		return err
	}
	defer root.Close()
	s, err := read(root.FS())
	if err != nil {
		return err
	}
	links, err := s.link()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d pages, %d links within the repository\n", len(s.pages), links)
	if args[0] == "-n" {
		return nil
	}
	files, err := s.files()
	if err != nil {
		return err
	}
	if err := write(args[0], files); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s is the first page\n", filepath.Join(args[0], "index.html"))
	return nil
}

// mark is a file in the site's directory: only a directory with it, or an empty one, is
// overwritten.
const mark = ".made-by-make-site"

// write makes dir contain exactly these files.
func write(dir string, files map[string][]byte) error {
	there, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, mark)); err != nil && len(there) > 0 {
		return fmt.Errorf("%s has files, but is no site: name an empty directory", dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	files[mark] = nil
	for name, data := range files {
		if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(path.Dir(name))), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
