// Package layers holds the rules that keep the repository in shape, as a test.
//
// The folders are the layers:
//
//	cmd ─► sim ─► edge ─► role ─► protocol ─► learn
//
// A folder may import what lies to its right, within the limits of allowed. The test reads the files itself: one that
// asks the go command would pass from the test cache after a violation.
package layers

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/iota-train/iota"

// Limits of a file and of a function, in lines. Generated code and tests may exceed them.
const (
	maxFileLines = 400
	maxFuncLines = 60
)

// layers, left to right.
var layers = []string{"cmd", "sim", "edge", "role", "protocol", "learn"}

// learnImports says what each package of learn may import of the others; one that is not listed may import nothing.
var learnImports = map[string][]string{
	"learn/tensor": {"learn/kernel"},
	"learn/model":  {"learn/kernel", "learn/tensor"},
	"learn/optim":  {"learn/kernel", "learn/tensor"},
	"learn/data":   {"learn/kernel", "learn/tensor"},
}

// adapters are the packages of edge that sim may see, and that do not know node.
var adapters = []string{"edge/store", "edge/journal", "edge/transport"}

// forbiddenNames of folders and packages say nothing about what is inside; iota shadows Go's identifier.
var forbiddenNames = []string{"util", "utils", "common", "helper", "helpers", "misc", "iota"}

// clock is what package time offers to read or to wait for the wall clock.
var clock = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}

// ownRand is what math/rand/v2 offers besides its global source.
var ownRand = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "PCG", "ChaCha8", "Zipf"}

func TestRepositoryKeepsItsRules(t *testing.T) {
	files, err := readRepository(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 2 {
		t.Fatalf("found %d Go files", len(files))
	}
	for _, p := range check(files) {
		t.Error(p)
	}
}

// readRepository returns the Go files below root by path. The tools are a module of their own, with their own rules.
func readRepository(root string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == root {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil || base == "testdata" || base[0] == '.' || base[0] == '_' {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		src, err := os.ReadFile(name)
		files[filepath.ToSlash(name)] = string(src)
		return err
	})
	return files, err
}

// source is one parsed file.
type source struct {
	name, folder    string // slash-separated, from the root
	test, generated bool
	lines           int
	syntax          *ast.File
	set             *token.FileSet
}

// check returns what is wrong with the files, which are given by path, in order of path.
func check(files map[string]string) []string {
	var problems []string
	documented := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		s := source{name: name, folder: path.Dir(name), set: token.NewFileSet()}
		var err error
		if s.syntax, err = parser.ParseFile(s.set, name, files[name], parser.ParseComments); err != nil {
			problems = append(problems, err.Error())
			continue
		}
		s.test = strings.HasSuffix(name, "_test.go")
		s.generated = ast.IsGenerated(s.syntax) || strings.HasSuffix(name, ".pb.go") || strings.HasSuffix(name, "_gen.go")
		s.lines = strings.Count(files[name], "\n")
		documented[s.folder] = documented[s.folder] || isPackageComment(s.syntax)
		problems = slices.Concat(problems, s.checkPlace(), s.checkImports(), s.checkDeterminism(), s.checkLength())
	}
	for _, folder := range slices.Sorted(maps.Keys(documented)) {
		if !documented[folder] {
			problems = append(problems, folder+": no package comment")
		}
	}
	return problems
}

// isPackageComment reports whether the file documents its package in the form that go doc expects.
func isPackageComment(f *ast.File) bool {
	text := f.Doc.Text()
	if f.Name.Name == "main" {
		return text != ""
	}
	return strings.HasPrefix(text, "Package "+f.Name.Name+" ")
}

// at prefixes a problem with its place.
func (s *source) at(pos token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.name, s.set.Position(pos).Line, fmt.Sprintf(format, args...))
}

// in reports whether the file lies in one of the folders or below.
func (s *source) in(folders ...string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return within(s.folder, f) })
}

// within reports whether folder is parent or lies below it.
func within(folder, parent string) bool {
	return folder == parent || strings.HasPrefix(folder, parent+"/")
}

// checkPlace looks at the names of folder and package, and at the layer.
func (s *source) checkPlace() []string {
	var problems []string
	if top := strings.Split(s.folder, "/")[0]; !slices.Contains(layers, top) && !(top == "." && s.test) {
		problems = append(problems, s.at(s.syntax.Package, "folder %s belongs to no layer", s.folder))
	}
	for i, element := range strings.Split(s.folder, "/") {
		if slices.Contains(forbiddenNames, element) && !(i == 1 && s.in("cmd/iota")) {
			problems = append(problems, s.at(s.syntax.Package, "a folder called %s says nothing", element))
		}
	}
	if name := strings.TrimSuffix(s.syntax.Name.Name, "_test"); slices.Contains(forbiddenNames, name) {
		problems = append(problems, s.at(s.syntax.Name.Pos(), "no package may be called %s", name))
	}
	return problems
}

// checkImports holds every import against the layers.
func (s *source) checkImports() []string {
	var problems []string
	for _, spec := range s.syntax.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		if to, ours := strings.CutPrefix(imported, module+"/"); ours {
			if !s.allowed(to) {
				problems = append(problems, s.at(spec.Pos(), "%s may not import %s", s.folder, to))
			}
			continue
		}
		if network := imported == "net" || strings.HasPrefix(imported, "net/"); network && s.in("learn", "protocol", "role") {
			problems = append(problems, s.at(spec.Pos(), "%s may not know the network", s.folder))
		}
		if (imported == "os" || strings.HasPrefix(imported, "os/")) && s.in("protocol", "role") && !s.test {
			problems = append(problems, s.at(spec.Pos(), "%s may not do input or output", s.folder))
		}
	}
	return problems
}

// allowed reports whether the file may import the package in folder to. A test may import all of its own layer and of
// those to its right.
func (s *source) allowed(to string) bool {
	from, target := slices.Index(layers, strings.Split(s.folder, "/")[0]), slices.Index(layers, strings.Split(to, "/")[0])
	switch {
	case from < 0 || target < from:
		return false
	case s.test:
		return true
	case s.in("protocol"):
		return within(to, "protocol") || within(to, "learn/tensor")
	case s.in("sim") && within(to, "edge"):
		return slices.ContainsFunc(adapters, func(a string) bool { return within(to, a) })
	case s.in(adapters...), s.in("edge/remote"):
		return !within(to, "edge/node")
	case s.in("learn"):
		parts := strings.Split(s.folder, "/")
		unit := strings.Join(parts[:min(2, len(parts))], "/")
		return slices.ContainsFunc(append(learnImports[unit], unit), func(l string) bool { return within(to, l) })
	}
	return true
}

// checkDeterminism keeps clock, goroutines and hidden randomness out of what must give the same bits every time. The
// kernels may run their worker pool and time themselves: no result depends on either.
func (s *source) checkDeterminism() []string {
	if !s.in("learn", "protocol", "role") {
		return nil
	}
	var problems []string
	kernel, names := s.in("learn/kernel"), map[string]string{} // names of imported packages
	for _, spec := range s.syntax.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		name := path.Base(strings.TrimSuffix(imported, "/v2"))
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = imported
		if imported == "math/rand" || imported == "crypto/rand" && !s.test {
			problems = append(problems, s.at(spec.Pos(), "%s may not import %s: take a source from the caller", s.folder, imported))
		}
		if name == "." {
			problems = append(problems, s.at(spec.Pos(), "a dot import hides where names come from"))
		}
	}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if !kernel && !s.test {
				problems = append(problems, s.at(n.Pos(), "%s may not start goroutines", s.folder))
			}
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if !ok || x.Obj != nil { // Obj is set where a variable shadows the import.
				break
			}
			if names[x.Name] == "time" && slices.Contains(clock, n.Sel.Name) && !kernel {
				problems = append(problems, s.at(n.Pos(), "%s may not use time.%s", s.folder, n.Sel.Name))
			}
			if names[x.Name] == "math/rand/v2" && !slices.Contains(ownRand, n.Sel.Name) {
				problems = append(problems, s.at(n.Pos(), "%s may not use the global rand.%s", s.folder, n.Sel.Name))
			}
		}
		return true
	})
	return problems
}

// checkLength bounds files and functions.
func (s *source) checkLength() []string {
	if s.generated || s.test {
		return nil
	}
	var problems []string
	if s.lines > maxFileLines {
		problems = append(problems, fmt.Sprintf("%s: %d lines, more than %d", s.name, s.lines, maxFileLines))
	}
	for _, d := range s.syntax.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if n := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line + 1; n > maxFuncLines {
			problems = append(problems, s.at(f.Pos(), "%s has %d lines, more than %d", f.Name.Name, n, maxFuncLines))
		}
	}
	return problems
}
