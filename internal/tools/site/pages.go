package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// A page is a Markdown file. Its name is its path below the root of the repository, with
// slashes.
type page struct {
	name     string
	source   []byte
	doc      ast.Node
	title    string
	headings []heading // in their order
}

// A heading can be linked to: its id is the one that GitHub gives it.
type heading struct {
	level    int
	text, id string
}

// A site has all pages, by name.
type site struct {
	repository fs.FS
	pages      map[string]*page
	pictures   map[string]bool // files that a page shows, or that it links to and a browser can show
	markdown   goldmark.Markdown
}

// start is the page that readers open first.
const start = "README.md"

// read parses the pages of the repository: those at its root and those below docs.
func read(repository fs.FS) (*site, error) {
	s := &site{repository: repository, pages: map[string]*page{}, pictures: map[string]bool{}, markdown: goldmark.New(goldmark.WithExtensions(extension.GFM))}
	names, err := fs.Glob(repository, "*.md")
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(repository, "docs", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && path.Ext(name) == ".md" {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		source, err := fs.ReadFile(repository, name)
		if err != nil {
			return nil, err
		}
		s.pages[name] = s.parse(name, source)
	}
	if s.pages[start] == nil {
		return nil, fmt.Errorf("%s is missing: call this at the root of the repository", start)
	}
	return s, nil
}

func (s *site) parse(name string, source []byte) *page {
	p := &page{name: name, source: source, title: name, doc: s.markdown.Parser().Parse(text.NewReader(source))}
	taken := map[string]int{}
	each(p.doc, func(n ast.Node) {
		h, ok := n.(*ast.Heading)
		if !ok {
			return
		}
		words := plain(h, source)
		id := slug(words)
		if taken[id]++; taken[id] > 1 {
			id = fmt.Sprintf("%s-%d", id, taken[id]-1)
		}
		h.SetAttributeString("id", []byte(id))
		if p.headings = append(p.headings, heading{h.Level, words, id}); h.Level == 1 && p.title == name {
			p.title = words
		}
	})
	return p
}

// has reports whether a link to the page may end with #id.
func (p *page) has(id string) bool {
	return slices.ContainsFunc(p.headings, func(h heading) bool { return h.id == id })
}

// line returns the line on which the node begins.
func (p *page) line(n ast.Node) int {
	for n != nil && n.Pos() < 0 {
		n = n.Parent()
	}
	if n == nil {
		return 1
	}
	return 1 + bytes.Count(p.source[:min(n.Pos(), len(p.source))], []byte("\n"))
}

// each calls f for the node and for all nodes below it.
func each(n ast.Node, f func(ast.Node)) {
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			f(n)
		}
		return ast.WalkContinue, nil
	})
}

// plain returns the text of the node, without markup.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	each(n, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(source))
			if n.SoftLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(n.Value)
		}
	})
	return b.String()
}

// slug returns the id of a heading, as GitHub makes it.
func slug(words string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r):
			return unicode.ToLower(r)
		}
		return -1
	}, words)
}

// address returns the page's address on the site: README.md is the index of its directory.
func address(name string) string {
	if path.Base(name) == "README.md" {
		return path.Join(path.Dir(name), "index.html")
	}
	return strings.TrimSuffix(name, ".md") + ".html"
}
