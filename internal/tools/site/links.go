package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// source is where a browser finds files of the repository that are not on the site.
const source = "https://github.com/holdfast-go/holdfast/tree/main/"

// A wrong is an error on a line of a page.
type wrong struct {
	page string
	line int
	why  string
}

// link turns links within the repository into links within the site. It returns how many links there are, or their
// errors.
func (s *site) link() (links int, err error) {
	var all []wrong
	seen := map[string]bool{start: true} // the pages that another links to
	for _, p := range s.pages {
		blame := func(n ast.Node, format string, args ...any) {
			all = append(all, wrong{p.name, p.line(n), fmt.Sprintf(format, args...)})
		}
		each(p.doc, func(n ast.Node) {
			var to *[]byte
			switch n := n.(type) {
			case *ast.Link:
				to = &n.Destination
			case *ast.Image:
				to = &n.Destination
			case *ast.HTMLBlock, *ast.RawHTML:
				if b, ok := n.(*ast.HTMLBlock); ok && b.HTMLBlockType == ast.HTMLBlockType2 {
					return // a comment
				}
				blame(n, "HTML is left out of the site, and links in it are not checked: write Markdown")
				return
			default:
				return
			}
			target, err := url.Parse(string(*to))
			if err != nil {
				blame(n, "%v", err)
				return
			}
			if target.Scheme != "" {
				return
			}
			links++
			address, page, err := s.target(p, target)
			if err != nil {
				blame(n, "%s: %v", *to, err)
				return
			}
			if page != nil && page != p {
				seen[page.name] = true
			}
			*to = []byte(address)
		})
	}
	for name := range s.pages {
		if !seen[name] {
			all = append(all, wrong{name, 1, "no other page links to this one, so readers cannot find it"})
		}
	}
	slices.SortFunc(all, func(a, b wrong) int {
		return cmp.Or(cmp.Compare(a.page, b.page), cmp.Compare(a.line, b.line), cmp.Compare(a.why, b.why))
	})
	var errs []error
	for _, w := range all {
		errs = append(errs, fmt.Errorf("%s:%d: %s", w.page, w.line, w.why))
	}
	return links, errors.Join(errs...)
}

// target returns where a link of the page leads on the site, and the page that it leads to, if
// it is a page.
func (s *site) target(from *page, to *url.URL) (address string, p *page, err error) {
	name := path.Join(path.Dir(from.name), to.Path)
	switch {
	case to.Host != "" || strings.HasPrefix(to.Path, "/"):
		return "", nil, errors.New("begins with a slash: a link within the repository is relative to its page")
	case to.Path == "":
		name = from.name
	case !fs.ValidPath(name):
		return "", nil, errors.New("is outside of the repository")
	}
	is, err := fs.Stat(s.repository, name)
	if err != nil {
		return "", nil, errors.New("there is no such file")
	}
	if index := path.Join(name, "README.md"); is.IsDir() && s.pages[index] != nil {
		name = index
	}
	p = s.pages[name]
	switch {
	case p != nil && to.Fragment != "" && !p.has(to.Fragment):
		return "", p, fmt.Errorf("%s has no heading with that id", name)
	case p != nil:
		return s.relative(from.name, name, to.Fragment), p, nil
	case to.Fragment != "":
		return "", nil, errors.New("only a page has headings")
	case slices.Contains([]string{".png", ".svg"}, path.Ext(name)):
		s.pictures[name] = true
		return s.relative(from.name, name, ""), nil, nil
	}
	return source + name, nil, nil
}

// relative returns the relative address from one page to another, or to a picture.
func (s *site) relative(from, to, id string) string {
	if s.pages[to] != nil {
		to = address(to)
	}
	if id != "" {
		id = "#" + id
	}
	return strings.Repeat("../", strings.Count(from, "/")) + to + id
}
