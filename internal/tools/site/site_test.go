package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// repository has these files, and a README that links to the page a.md.
func repository(files map[string]string) fstest.MapFS {
	all := fstest.MapFS{"README.md": {Data: []byte("# holdfast\n\n## More\n\n[The page](docs/a.md)\n")}, "docs/a.md": {Data: []byte("# A page\n")}}
	for name, text := range files {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

func TestBrokenLinkFails(t *testing.T) {
	const page = "docs/a.md"
	for _, c := range []struct{ text, want string }{
		{"[x](b.md)", "docs/a.md:1: b.md: there is no such file"},
		{"one\n\ntwo\n[x](../gone)", "docs/a.md:4: ../gone: there is no such file"},
		{"![x](gone.png)", "docs/a.md:1: gone.png: there is no such file"},
		{"[x](#gone)", "docs/a.md:1: #gone: docs/a.md has no heading with that id"},
		{"[x](../README.md#gone)", "docs/a.md:1: ../README.md#gone: README.md has no heading with that id"},
		{"# A\n\n|a|\n|---|\n|[x](#b)|", "docs/a.md:5: #b: docs/a.md has no heading with that id"},
		{"[x][1]\n\n[1]: b.md", "docs/a.md:1: b.md: there is no such file"},
		{"[x](../../other)", "docs/a.md:1: ../../other: is outside of the repository"},
		{"[x](/README.md)", "docs/a.md:1: /README.md: begins with a slash"},
		{"[x](../main.go#L3)", "docs/a.md:1: ../main.go#L3: only a page has headings"},
		{`a <a href="gone">x</a>`, "docs/a.md:1: HTML is left out"},
		{`<img src="gone">`, "docs/a.md:1: HTML is left out"},
		{"[x](http://a b)", ""}, // not a link, but text
		{"[x](%zz)", "docs/a.md:1: parse"},
		{"[x](../README.md#more) [y](../main.go) [z](https://example.org/gone) [u](../docs) `[v](w)`", ""},
		{"## A heading: `code`, and *more*!\n\n[x](#a-heading-code-and-more)", ""},
		{"## Twice\n\n## Twice\n\n[x](#twice) [y](#twice-1)", ""},
		{"## 运行 `go`\n\n[x](#运行-go)", ""},
		{"<!-- a comment -->\n", ""},
	} {
		s, err := read(repository(map[string]string{page: c.text, "main.go": ""}))
		if err != nil {
			t.Fatal(err)
		}
		says := ""
		if _, err := s.link(); err != nil {
			says = err.Error()
		}
		if says != c.want && (c.want == "" || !strings.HasPrefix(says, c.want)) {
			t.Errorf("%q: got %q, want %q", c.text, says, c.want)
		}
	}
}

func TestPageThatNothingLinksToFails(t *testing.T) {
	s, err := read(repository(map[string]string{"docs/b.md": "[myself](b.md)"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.link(); err == nil || !strings.HasPrefix(err.Error(), "docs/b.md:1: no other page links to this one") {
		t.Error(err)
	}
}

// Nothing is written if a link is broken, and a directory that is not a site stays as it is.
func TestSiteIsWrittenWhole(t *testing.T) {
	t.Chdir(t.TempDir())
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("README.md", "# holdfast\n\n## More\n\n[The page](docs/a.md)\n")
	put("docs/a.md", "# A & B\n\n## Part\n\n[home](../README.md) ![shown](p.png) [code](../main.go) [broken](b.md)\n")
	put("docs/p.png", "picture")
	put("main.go", "")
	if err := run(io.Discard, []string{"out"}); err == nil {
		t.Fatal("a broken link is no error")
	}
	if _, err := os.Stat("out"); err == nil {
		t.Error("a site with a broken link was written")
	}
	put("docs/b.md", "# B\n")
	put("other/file", "")
	if err := run(io.Discard, []string{"other"}); err == nil || !strings.Contains(err.Error(), "is no site") {
		t.Error(err)
	}
	for range 2 { // the second run overwrites the first
		if err := run(io.Discard, []string{"out"}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile("out/docs/a.html")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<title>A &amp; B · holdfast</title>`, `href="../style.css"`, `<a href="../index.html">home</a>`, `<img src="../docs/p.png"`,
		`<a href="` + source + `main.go">code</a>`, `<a href="../docs/b.html">broken</a>`, `<h2 id="part">`, `<li><a href="#part">Part</a></li>`,
		`<a href="../docs/a.html" aria-current="page">The page</a>`,
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %s:\n%s", want, page)
		}
	}
	for _, name := range []string{"out/index.html", "out/style.css", "out/docs/p.png"} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}
