//go:build mutate

package pair

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The files with the life of a process, and what in them says nothing of it.
var (
	mutated = []string{"main.go", "standby.go", "active.go", "upgrade.go", "child.go", "role.go", "control.go"}
	spared  = []string{"Log", "Main", "Inherited", "InheritedLog", "inherited", "control", "listen"}
)

// redirected is what a name is replaced by.
var redirected = map[string]string{
	"ready": "broken", "broken": "ready", "standBy": "leave", "leave": "standBy", "ping": "pong", "pong": "ping",
	"takeOver": "leave", "serving": "ready",
	"Started": "Planned", "Planned": "Crash", "Crash": "Planned", "Hang": "Planned",
	"wanted": "unwanted", "unwanted": "orphaned", "orphaned": "unwanted",
	"activeByte": "standbyByte", "standbyByte": "activeByte",
	"commandStatus": "commandStop", "commandStop": "commandStatus", "commandUpgrade": "commandProceed", "commandProceed": "commandUpgrade",
	"true": "false", "false": "true",
}

// Mutants that do as the product does, by what they change; and why.
var equivalent = map[string]string{
	"upgrade.go without a.standby = nil": "another one is in its place at once, or it is found to have ended",
}

var withoutLine = regexp.MustCompile(`:\d+:`)

// TestEveryMutantFails takes each transition of a process's life away, or has it lead
// elsewhere, and requires the table of orders to fail. All mutants are in one binary: which
// one it is, it is told by its environment.
func TestEveryMutantFails(t *testing.T) {
	dir := t.TempDir()
	m := &mutator{}
	overlay := map[string]string{}
	for _, name := range mutated {
		path, err := filepath.Abs(name)
		if err != nil {
			t.Fatal(err)
		}
		overlay[path] = filepath.Join(dir, name)
		if err := os.WriteFile(overlay[path], m.mutate(t, name), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay[filepath.Join(filepath.Dir(path), "mutants.go")] = filepath.Join(dir, "mutants.go")
	}
	if err := os.WriteFile(filepath.Join(dir, "mutants.go"), []byte(switches), 0o600); err != nil {
		t.Fatal(err)
	}
	replace, _ := json.Marshal(map[string]any{"Replace": overlay})
	if err := os.WriteFile(filepath.Join(dir, "overlay"), replace, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "mutants")
	build := exec.Command("go", "test", "-c", "-overlay", filepath.Join(dir, "overlay"), "-o", binary, ".")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	fails := func(mutant int) bool {
		run := exec.Command(binary, "-test.run=^(TestOrders|TestAnyDeathAtAnyMoment)$", "-test.failfast", "-test.timeout=10s")
		run.Env = append(os.Environ(), "MUTANT="+strconv.Itoa(mutant))
		return run.Run() != nil
	}
	if fails(0) {
		t.Fatal("the product itself fails")
	}
	var all sync.WaitGroup
	next := make(chan int)
	for range runtime.NumCPU() {
		all.Go(func() {
			for i := range next {
				what := m.mutants[i]
				_, same := equivalent[withoutLine.ReplaceAllString(what, "")]
				if failed := fails(i + 1); failed == same {
					t.Errorf("fails: %v: %s", failed, what)
				}
			}
		})
	}
	for i := range m.mutants {
		next <- i
	}
	close(next)
	all.Wait()
	t.Log(len(m.mutants), "mutants")
}

// switches is what the mutants' code calls.
const switches = `package pair

import (
	"os"
	"strconv"
)

var mutant, _ = strconv.Atoi(os.Getenv("MUTANT"))

func mutate(i int) bool { return mutant == i }

func pick[T any](i int, usual, other T) T {
	if mutant == i {
		return other
	}
	return usual
}

func unless[T any](i int, c <-chan T) <-chan T {
	if mutant == i {
		return nil
	}
	return c
}
`

type mutator struct {
	source  []byte
	name    string
	files   *token.FileSet
	edits   []edit
	mutants []string // what each changes
}

// edit puts code around what is from one offset to another, or in its place.
type edit struct {
	from, to      int
	before, after string
}

func (m *mutator) around(node ast.Node, what, before, after string) {
	from, to := m.files.Position(node.Pos()).Offset, m.files.Position(node.End()).Offset
	line, _, _ := strings.Cut(string(m.source[from:to]), "\n")
	m.mutants = append(m.mutants, fmt.Sprintf("%s:%d: %s %s", m.name, m.files.Position(node.Pos()).Line, what, line))
	m.edits = append(m.edits, edit{from, to, fmt.Sprintf(before, len(m.mutants)), after})
}

// mutate returns a file with all of its mutants.
func (m *mutator) mutate(t *testing.T, name string) []byte {
	var err error
	if m.source, err = os.ReadFile(name); err != nil {
		t.Fatal(err)
	}
	m.name, m.files, m.edits = name, token.NewFileSet(), nil
	file, err := parser.ParseFile(m.files, name, m.source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, declaration := range file.Decls {
		f, is := declaration.(*ast.FuncDecl)
		if !is || slices.Contains(spared, f.Name.Name) {
			continue
		}
		m.function(f.Type, f.Body)
	}
	return m.apply()
}

func (m *mutator) function(f *ast.FuncType, body *ast.BlockStmt) {
	var last ast.Stmt
	if list := body.List; len(list) > 0 {
		last = list[len(list)-1]
	}
	ast.Inspect(body, func(n ast.Node) bool { return m.visit(n, last) })
	if f.Results != nil { // where a return is gone
		end := m.files.Position(body.Rbrace).Offset
		m.edits = append(m.edits, edit{end, end, "\npanic(\"mutant\")\n", ""})
	}
}

func (m *mutator) visit(n ast.Node, last ast.Stmt) bool {
	switch n := n.(type) {
	case *ast.FuncLit:
		m.function(n.Type, n.Body)
		return false
	case *ast.BlockStmt:
		m.statements(n.List, last)
	case *ast.CaseClause:
		for _, condition := range n.List {
			if _, name := condition.(*ast.Ident); !name {
				m.condition(condition)
			}
		}
		m.statements(n.Body, last)
	case *ast.CommClause:
		m.statements(n.Body, last)
		if n.Comm == nil {
			return true
		}
		ast.Inspect(n.Comm, func(n ast.Node) bool {
			if receive, is := n.(*ast.UnaryExpr); is && receive.Op == token.ARROW {
				m.around(receive.X, "never", "unless(%d, ", ")")
			}
			return true
		})
	case *ast.IfStmt:
		m.condition(n.Cond)
	case *ast.CallExpr:
		if call, is := n.Fun.(*ast.SelectorExpr); is && slices.Contains(spared, call.Sel.Name) {
			return false
		}
	case *ast.SelectorExpr:
		ast.Inspect(n.X, func(n ast.Node) bool { return m.visit(n, last) })
		return false
	case *ast.KeyValueExpr:
		ast.Inspect(n.Value, func(n ast.Node) bool { return m.visit(n, last) })
		return false
	case *ast.BasicLit:
		if n.Value == `""` && m.name == "standby.go" {
			m.around(n, "a cause for", "Cause(pick(%d, string(", "), \"crash\"))")
		}
	case *ast.Ident:
		if other := redirected[n.Name]; other != "" {
			m.around(n, other+" for", "pick(%d, ", ", "+other+")")
		}
	}
	return true
}

// statements takes each away.
func (m *mutator) statements(list []ast.Stmt, last ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt:
			if call, is := s.X.(*ast.CallExpr); is {
				if f, is := call.Fun.(*ast.SelectorExpr); is && slices.Contains(spared, f.Sel.Name) {
					continue
				}
				if f, is := call.Fun.(*ast.Ident); is && slices.Contains(spared, f.Name) {
					continue
				}
			}
		case *ast.AssignStmt:
			if s.Tok == token.DEFINE {
				continue
			}
		case *ast.IncDecStmt, *ast.GoStmt, *ast.SendStmt:
		case *ast.ReturnStmt:
			if s == last {
				continue
			}
		default:
			continue
		}
		m.around(s, "without", "if !mutate(%d) { ", " }")
	}
}

// condition negates each part of a condition.
func (m *mutator) condition(e ast.Expr) {
	switch b, is := e.(*ast.BinaryExpr); {
	case is && (b.Op == token.LAND || b.Op == token.LOR):
		m.condition(b.X)
		m.condition(b.Y)
	default:
		m.around(e, "not", "(mutate(%d) != (", "))")
	}
}

// apply makes the edits, of which one may be in another.
func (m *mutator) apply() []byte {
	type insertion struct {
		at, rank, order int
		text            string
	}
	var all []insertion
	for _, e := range m.edits {
		all = append(all, insertion{e.from, 1, e.from - e.to, e.before}, insertion{e.to, 0, e.to - e.from, e.after})
	}
	slices.SortStableFunc(all, func(a, b insertion) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank), cmp.Compare(a.order, b.order))
	})
	var out []byte
	at := 0
	for _, i := range all {
		out = append(out, m.source[at:i.at]...)
		out = append(out, i.text...)
		at = i.at
	}
	return append(out, m.source[at:]...)
}
