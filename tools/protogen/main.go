// Command protogen generates the Go types of .proto files, with no protoc to install.
//
// It compiles the files named as arguments and writes a .pb.go next to each. Files are known by their path from the
// root, which is also what an import statement inside them names.
//
//	cd tools && go run ./protogen ../protocol/message/message.proto
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	gengo "google.golang.org/protobuf/cmd/protoc-gen-go/internal_gengo"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	root := flag.String("root", "..", "folder that imports inside the files start from")
	flag.Parse()
	if err := run(*root, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// run generates the Go types of the files at paths, all of which lie under root.
func run(root string, paths []string) error {
	if len(paths) == 0 {
		return errors.New("name at least one .proto file")
	}
	names := make([]string, len(paths))
	for i, path := range paths {
		name, err := filepath.Rel(root, path)
		if err != nil || !filepath.IsLocal(name) {
			return fmt.Errorf("%s does not lie under %s", path, root)
		}
		names[i] = filepath.ToSlash(name)
	}
	files, err := compile(root, names)
	if err != nil {
		return err
	}
	generated, err := generate(names, files)
	if err != nil {
		return err
	}
	for _, f := range generated {
		path := filepath.Join(root, filepath.FromSlash(f.GetName()))
		if err := os.WriteFile(path, []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compile returns the named files and all that they import, every file after its imports.
func compile(root string, names []string) ([]*descriptorpb.FileDescriptorProto, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard, // the comments
	}
	linked, err := compiler.Compile(context.Background(), names...)
	if err != nil {
		return nil, err
	}
	var files []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var visit func(f protoreflect.FileDescriptor)
	visit = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			visit(f.Imports().Get(i).FileDescriptor)
		}
		files = append(files, protoutil.ProtoFromFileDescriptor(f))
	}
	for _, f := range linked {
		visit(f)
	}
	return files, nil
}

// generate returns the Go source of the named files, each under its path from the root.
func generate(names []string, files []*descriptorpb.FileDescriptorProto) ([]*pluginpb.CodeGeneratorResponse_File, error) {
	plugin, err := protogen.Options{}.New(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: names,
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      files,
	})
	if err != nil {
		return nil, err
	}
	for _, f := range plugin.Files {
		if f.Generate {
			gengo.GenerateFile(plugin, f)
		}
	}
	response := plugin.Response()
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	return response.GetFile(), nil
}
