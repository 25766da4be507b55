// Package inject adds FUSE programs to manifests, as the chart's admission policy adds them to
// pods: for API servers without such policies, and for those who want to see what is added. The
// policy (deploy/chart/pod-info-fuse/templates/programs.yaml) is the truth. deploy/check compares
// both.
//
// What is added is put into the text of the manifest, whose other lines stay as they are: comments,
// blank lines, the order of keys, and documents that are not workloads. The result is read again,
// and compared with what it should be, so that YAML of an unusual form is refused and never changed
// wrongly.
package inject

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Manifest returns a manifest with what its pods ask for. Its error has a line for each pod that
// the policy would refuse.
func (l List) Manifest(manifest string) (string, error) {
	manifest = strings.TrimPrefix(manifest, byteOrderMark)
	if !utf8.ValidString(manifest) { // kubectl reads UTF-16, too, in which the driver's name would be overlooked
		return "", errors.New("the manifest is not UTF-8")
	}
	var out strings.Builder
	var problems []error
	line := 1
	for _, document := range documents(manifest) {
		injected, err := l.document(document, line)
		if err != nil {
			problems = append(problems, err)
		}
		out.WriteString(injected)
		line += strings.Count(document, "\n")
	}
	if err := errors.Join(problems...); err != nil {
		return "", err
	}
	return out.String(), nil
}

// byteOrderMark begins files of some Windows programs.
const byteOrderMark = "\ufeff"

// documents splits a stream before each line that begins with the word --- or ..., which are
// nothing else anywhere in YAML.
func documents(stream string) (all []string) {
	begin, at := 0, 0
	for line := range strings.Lines(stream) {
		if word := line[:strings.IndexAny(line+"\n", " \t\r\n")]; word == "---" || word == "..." {
			all = append(all, stream[begin:at])
			begin = at
		}
		at += len(line)
	}
	return append(all, stream[begin:])
}

// document adds to one document, which begins in a line of the stream.
func (l List) document(document string, line int) (string, error) {
	// What does not name the driver need not be read, such as the templates of a large chart.
	if _, name, _ := strings.Cut(l.driver, "/"); !strings.Contains(document, name) {
		return document, nil
	}
	before := strings.Repeat("\n", line-1) // so that errors have the stream's lines
	object, err := decode(before + document)
	if err != nil {
		return "", err
	}
	var additions []addition
	var refusals []error
	workloads(object, nil, func(workload any, path []any) {
		pod := along(object, path)
		if !l.asks(pod) {
			return
		}
		for _, a := range l.additions(pod) {
			a.list = slices.Concat(path, a.list)
			a.apply(object)
			additions = append(additions, a)
		}
		for _, message := range l.refusals(pod) {
			name := strings.TrimSpace(text(in(workload, "kind")) + " " + text(in(workload, "metadata", "name")))
			refusals = append(refusals, fmt.Errorf("%s: %s", name, message))
		}
	})
	if len(refusals) > 0 || len(additions) == 0 {
		return document, errors.Join(refusals...)
	}
	if strings.Contains(strings.ReplaceAll(document, "\r\n", ""), "\r") {
		return "", fmt.Errorf("line %d: a carriage return ends a line by itself, or is in a value: write \\n, or \"\\r\"", line)
	}
	injected, err := insert(before+document, additions)
	if err != nil {
		return "", err
	}
	if got, err := decode(injected); err != nil || !reflect.DeepEqual(got, object) {
		return "", fmt.Errorf("line %d: this YAML is of a form to which nothing can be added: write it without anchors and aliases, and indent all lines of a list", line)
	}
	return injected[len(before):], nil
}

// decode reads a document, as JSON has it.
func decode(text string) (object any, err error) {
	text = strings.TrimPrefix(text, byteOrderMark)
	if strings.Contains(text, "*") { // an alias
		seen := size{of: map[string]int{}}
		if file, err := parser.ParseBytes([]byte(text), 0); err == nil { // an error is told below
			for _, document := range file.Docs {
				ast.Walk(&seen, document)
			}
		}
		if seen.n > maxNodes {
			return nil, fmt.Errorf("aliases stand for more than %d values", maxNodes)
		}
	}
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		return nil, errors.New(yaml.FormatError(err, false, false)) // [LINE:COLUMN] and what it is
	}
	content, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	object = nil
	return object, json.Unmarshal(content, &object)
}

// maxNodes is the largest size of a document that has aliases. etcd would take far less.
const maxNodes = 1 << 20

// size counts what a document has when its aliases are written out: a few lines can stand for
// gigabytes.
type size struct {
	n  int
	of map[string]int // by anchor
}

// Visit counts one node, up to maxNodes.
func (s *size) Visit(node ast.Node) ast.Visitor {
	s.n++
	switch node := node.(type) {
	case *ast.AnchorNode:
		before := s.n
		ast.Walk(s, node.Value)
		s.of[node.Name.String()] = s.n - before
		return nil
	case *ast.AliasNode:
		s.n += s.of[node.Value.String()]
		return nil
	}
	if s.n > maxNodes {
		return nil
	}
	return s
}

// workloads visits the workloads of an object, with the paths to their pods.
func workloads(object any, path []any, visit func(workload any, path []any)) {
	switch text(in(object, "kind")) {
	case "List":
		for i, item := range items(in(object, "items")) {
			workloads(item, slices.Concat(path, []any{"items", i}), visit)
		}
	case "Pod":
		visit(object, path)
	case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job":
		visit(object, slices.Concat(path, []any{"spec", "template"}))
	case "CronJob":
		visit(object, slices.Concat(path, []any{"spec", "jobTemplate", "spec", "template"}))
	}
}

// along returns what an object has at a path; nil for nothing.
func along(object any, path []any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object = in(object, step)
		case int:
			object = at(object, step)
		}
	}
	return object
}

// apply puts an addition into an object.
func (a addition) apply(object any) {
	last := len(a.list) - 1
	parent, key := along(object, a.list[:last]).(map[string]any), a.list[last].(string)
	var values []any
	for _, v := range a.values {
		var value any
		if err := json.Unmarshal([]byte(flow(v, true)), &value); err != nil {
			panic(err) // a defect of flow
		}
		values = append(values, value)
	}
	if a.first {
		parent[key] = slices.Concat(values, items(parent[key]))
	} else {
		parent[key] = slices.Concat(items(parent[key]), values)
	}
}

// insert puts an addition into the text of a document.
func insert(text string, additions []addition) (string, error) {
	file, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		return "", err
	}
	var body ast.Node
	for _, document := range file.Docs {
		if document.Body != nil {
			body = document.Body
		}
	}
	type insertion struct {
		at   int
		text string
	}
	var all []insertion
	lines := slices.Collect(strings.Lines(text))
	for _, a := range additions {
		at, added, err := a.place(body, lines)
		if err != nil {
			return "", err
		}
		all = append(all, insertion{at, added})
	}
	slices.SortStableFunc(all, func(a, b insertion) int { return a.at - b.at })
	var out strings.Builder
	from := 0
	for _, i := range all {
		out.WriteString(text[from:i.at])
		if begun := out.String(); strings.HasSuffix(i.text, "\n") && begun != "" && !strings.HasSuffix(begun, "\n") {
			out.WriteString("\n") // the last line of a file
		}
		out.WriteString(i.text)
		from = i.at
	}
	return out.String() + text[from:], nil
}

// place is where a document has the place of an addition, and the text that belongs there.
func (a addition) place(body ast.Node, lines []string) (at int, text string, err error) {
	last := len(a.list) - 1
	key := a.list[last].(string)
	parent, err := find(body, a.list[:last])
	if err != nil {
		return 0, "", err
	}
	mapping, isMapping := parent.(*ast.MappingNode)
	if !isMapping {
		return 0, "", fmt.Errorf("what has %s is no mapping", key)
	}
	var list *ast.SequenceNode
	if value := valueOf(mapping, key); value != nil {
		if value, err = find(value, nil); err != nil {
			return 0, "", err
		}
		if list, _ = value.(*ast.SequenceNode); list == nil {
			return 0, "", fmt.Errorf("line %d: %s is no list: write [], or remove it", value.GetToken().Position.Line, key)
		}
	}
	switch {
	case list == nil && mapping.IsFlowStyle:
		return position(lines, mapping.End), inside(mapping.End, flow(key, true)+": ["+a.flow()+"]"), nil
	case list == nil: // at the end of the mapping
		begin := mapping.Values[0].Key.GetToken().Position
		indent := begin.Column - 1
		return endOf(lines, begin.Line, indent, false), strings.Repeat(" ", indent) + key + ":\n" + a.block(indent), nil
	case list.IsFlowStyle && a.first:
		text = a.flow()
		if len(list.Values) > 0 {
			text += ", "
		}
		return position(lines, list.Start) + 1, text, nil
	case list.IsFlowStyle:
		return position(lines, list.End), inside(list.End, a.flow()), nil
	}
	indent := list.Start.Position.Column - 1
	if a.first {
		return lineAt(lines, list.Start.Position.Line), a.block(indent), nil
	}
	return endOf(lines, list.Start.Position.Line, indent, true), a.block(indent), nil
}

// find returns the node at a path from a node.
func find(node ast.Node, path []any) (ast.Node, error) {
	for {
		switch n := node.(type) {
		case nil:
			return nil, fmt.Errorf("no %v", path)
		case *ast.AnchorNode:
			node = n.Value
			continue
		case *ast.TagNode:
			node = n.Value
			continue
		case *ast.AliasNode:
			return nil, fmt.Errorf("line %d: %s is an alias: write out what it stands for", n.GetToken().Position.Line, n)
		}
		if len(path) == 0 {
			return node, nil
		}
		next, step := ast.Node(nil), path[0]
		switch n := node.(type) {
		case *ast.MappingNode:
			next = valueOf(n, step.(string))
		case *ast.SequenceNode:
			next = n.Values[step.(int)]
		}
		node, path = next, path[1:]
	}
}

// valueOf returns the value of a key; nil for none.
func valueOf(mapping *ast.MappingNode, key string) ast.Node {
	for _, v := range mapping.Values {
		if v.Key.GetToken().Value == key {
			return v.Value
		}
	}
	return nil
}

// position is where a text has a token, whose column counts characters.
func position(lines []string, of *token.Token) int {
	at, column := lineAt(lines, of.Position.Line), 1
	for i := range lines[of.Position.Line-1] {
		if column == of.Position.Column {
			return at + i
		}
		column++
	}
	return at
}

// lineAt is where a line begins. The first is 1.
func lineAt(lines []string, line int) int { return len(strings.Join(lines[:line-1], "")) }

// endOf returns where a block ends that begins in a line and has elements with this indent. Blank
// lines and comments before the next block are not part of it.
func endOf(lines []string, line, indent int, isList bool) int {
	isComment := func(text string) bool { return text == "" || text[0] == '#' }
	after := func(text string) (int, string) {
		content := strings.TrimLeft(text, " ")
		return len(text) - len(content), strings.TrimSpace(content)
	}
	for line < len(lines) {
		column, content := after(lines[line])
		inList := column > indent || column == indent && (content == "-" || strings.HasPrefix(content, "- "))
		if !isComment(content) && (isList && !inList || column < indent) {
			break
		}
		line++
	}
	for {
		if column, content := after(lines[line-1]); !isComment(content) || content != "" && column > indent {
			return lineAt(lines, line+1)
		}
		line--
	}
}

// inside is what is added before a closing bracket.
func inside(bracket *token.Token, text string) string {
	last := bracket.Prev
	for last.Type == token.CommentType {
		last = last.Prev
	}
	switch last.Type {
	case token.SequenceStartType, token.MappingStartType, token.CollectEntryType: // nothing, or a comma
		return text
	}
	return ", " + text
}

// fields are an object, in the order in which it is written.
type fields []field

type field struct {
	key   string
	value any // a string, a bool, a number, []any, fields, []fields, or what JSON has
}

// flow is an addition within brackets. There it is JSON, as the manifest may be.
func (a addition) flow() string {
	var all []string
	for _, v := range a.values {
		all = append(all, flow(v, true))
	}
	return strings.Join(all, ", ")
}

// block is an addition as elements of a list that are indented so far.
func (a addition) block(indent int) string {
	var out strings.Builder
	margin := strings.Repeat(" ", indent)
	for _, v := range a.values {
		if _, isMount := v[len(v)-1].value.(bool); isMount { // in one line, as within a container
			fmt.Fprintf(&out, "%s- %s\n", margin, flow(v, false))
			continue
		}
		dash := "- "
		for _, f := range v {
			fmt.Fprintf(&out, "%s%s%s:", margin, dash, f.key)
			if list, ok := f.value.([]fields); ok {
				out.WriteString("\n")
				for _, element := range list {
					fmt.Fprintf(&out, "%s  - %s\n", margin, flow(element, false))
				}
			} else {
				fmt.Fprintf(&out, " %s\n", flow(f.value, false))
			}
			dash = "  "
		}
	}
	return out.String()
}

// flow is a value in one line, as JSON or as YAML, which needs fewer quotes.
func flow(value any, isJSON bool) string {
	var all []string
	switch v := value.(type) {
	case string:
		return quote(v, isJSON)
	case map[string]any:
		var sorted fields
		for _, key := range slices.Sorted(maps.Keys(v)) {
			sorted = append(sorted, field{key, v[key]})
		}
		return flow(sorted, isJSON)
	case fields:
		for _, f := range v {
			all = append(all, quote(f.key, isJSON)+": "+flow(f.value, isJSON))
		}
		return "{" + strings.Join(all, ", ") + "}"
	case []fields:
		for _, element := range v {
			all = append(all, flow(element, isJSON))
		}
		return "[" + strings.Join(all, ", ") + "]"
	case []any:
		for _, element := range v {
			all = append(all, flow(element, isJSON))
		}
		return "[" + strings.Join(all, ", ") + "]"
	}
	content, err := json.Marshal(value)
	if err != nil {
		panic(err) // only what JSON had, or what this package made
	}
	return string(content)
}

const (
	lowercase    = "abcdefghijklmnopqrstuvwxyz"
	alphanumeric = lowercase + "ABCDEFGHIJKLMNOPQRSTUVWXYZ" + "0123456789"
)

// consists tells whether a string consists of these characters alone. Package regexp would slow
// down the start of each program that this package is part of.
func consists(s, characters string) bool { return strings.Trim(s, characters) == "" }

// isPlain tells whether every version of YAML reads this text as a string without quotes, also
// within brackets.
func isPlain(s string) bool {
	if unit := strings.TrimLeft(s, "0123456789"); unit != s { // a quantity
		return slices.Contains([]string{"m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"}, unit)
	}
	return s != "" && strings.Contains(alphanumeric+"/$", s[:1]) && consists(s, alphanumeric+"/$()._=+-:") && !strings.HasSuffix(s, ":") &&
		!slices.Contains([]string{"true", "false", "yes", "no", "on", "off", "y", "n", "null"}, strings.ToLower(s))
}

// quote returns a string in quotes that JSON and YAML read alike; for YAML, without quotes where it
// is plain.
func quote(s string, isJSON bool) string {
	if !isJSON && isPlain(s) {
		return s
	}
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(s); err != nil {
		panic(err) // no string is an error
	}
	var quoted strings.Builder
	for _, r := range strings.TrimSuffix(out.String(), "\n") {
		if r >= 0x7f && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff { // what YAML takes in no other form
			fmt.Fprintf(&quoted, `\u%04x`, r)
		} else {
			quoted.WriteRune(r)
		}
	}
	return quoted.String()
}
