// Command genfilter writes the seccomp filters of package confine, a file for each of them and
// each architecture. To assemble them at run time would cost every call-out of the driver the
// library's tables of system calls, which are made when a process starts.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"unsafe"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// architectures of the releases, by Go's names. All of them are little-endian.
var architectures = []string{"amd64", "arm64"}

func main() {
	files, err := generate()
	for name, content := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join("filters", name), content, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "genfilter: %v\n", err)
		os.Exit(1)
	}
}

// generate returns the content of all files, by their names.
func generate() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, goarch := range architectures {
		for _, filter := range filters {
			program, err := filter.assemble(goarch)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", goarch, err)
			}
			var content []byte
			for _, i := range program {
				instruction := unix.SockFilter{Code: i.Op, Jt: i.Jt, Jf: i.Jf, K: i.K}
				if content, err = binary.Append(content, binary.LittleEndian, instruction); err != nil {
					return nil, err
				}
			}
			files[goarch+"."+filter.name] = content
		}
	}
	return files, nil
}

func (f filter) assemble(goarch string) ([]bpf.RawInstruction, error) {
	info, err := arch.GetInfo(goarch)
	if err != nil {
		return nil, err
	}
	p := f.policy(goarch)
	forArchitecture(&p, info)
	instructions, err := p.Assemble()
	if err != nil {
		return nil, err
	}
	return bpf.Assemble(instructions)
}

// forArchitecture makes the library assemble for another architecture than its own. The
// library has a field for it, but no way to set it.
func forArchitecture(p *seccomp.Policy, info *arch.Info) {
	field := reflect.ValueOf(p).Elem().FieldByName("arch")
	reflect.NewAt(field.Type(), unsafe.Pointer(field.UnsafeAddr())).Elem().Set(reflect.ValueOf(info))
}
