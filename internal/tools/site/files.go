package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io/fs"

	"github.com/yuin/goldmark/ast"
)

//go:embed page.html
var pageText string

//go:embed style.css
var style []byte

// frame surrounds the text of each page.
var frame = template.Must(template.New("page").Parse(pageText))

// An entry is a line of the list of pages.
type entry struct {
	Text, Address string
	Here          bool
}

// A view is the data of the frame.
type view struct {
	Title, Language, Root string
	List                  []entry // the pages
	Sections              []entry // the headings of this page
	Text                  template.HTML
}

// files returns the files of the site by path. The links must already be resolved.
func (s *site) files() (map[string][]byte, error) {
	list, err := s.list()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"style.css": style}
	for name, p := range s.pages {
		if files[address(name)], err = s.render(p, list); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	for name := range s.pictures {
		if files[name], err = fs.ReadFile(s.repository, name); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func (s *site) render(p *page, list []entry) ([]byte, error) {
	var body, whole bytes.Buffer
	if err := s.markdown.Renderer().Render(&body, p.source, p.doc); err != nil {
		return nil, err
	}
	v := view{Title: p.title, Language: "en", Root: s.relative(p.name, "", ""), Text: template.HTML(body.String())}
	if p.name == "README.zh-CN.md" {
		v.Language = "zh-CN"
	}
	for _, e := range list {
		e.Here = e.Address == address(p.name)
		e.Address = v.Root + e.Address
		v.List = append(v.List, e)
	}
	for _, h := range p.headings {
		if h.level == 2 {
			v.Sections = append(v.Sections, entry{Text: h.text, Address: "#" + h.id})
		}
	}
	err := frame.Execute(&whole, v)
	return whole.Bytes(), err
}

// list returns the first page and the pages that its section "More" links to. Their addresses are relative to the
// root.
func (s *site) list() ([]entry, error) {
	p := s.pages[start]
	list := []entry{{Text: p.title, Address: address(start)}}
	more := false
	each(p.doc, func(n ast.Node) {
		switch n := n.(type) {
		case *ast.Heading:
			more = plain(n, p.source) == "More"
		case *ast.Link:
			if more {
				list = append(list, entry{Text: plain(n, p.source), Address: string(n.Destination)})
			}
		}
	})
	if len(list) < 2 {
		return nil, fmt.Errorf(`%s links to no page below the heading "More"`, start)
	}
	return list, nil
}
