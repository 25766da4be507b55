package pod

import (
	"fmt"
	"os"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const demoReadme = `These files come from a FUSE program in another container of this pod, which has no privilege:

	clock   the time
	log     a line for each second since the program started

Kill the program while you read: pod-fuse starts it again, and whoever reads meanwhile waits.
`

// serveDemo is a small FUSE program, so that the driver can be tried with no image but busybox.
func serveDemo(args []string) error {
	options := &fuse.MountOptions{Name: "demo", FsName: "demo", Options: []string{"ro"}, DisableReadDirPlus: true, DisableXAttrs: true}
	server, err := fuse.NewServer(&demo{fuse.NewDefaultRawFileSystem(), time.Now().UTC()}, args[0], options)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	fmt.Println("the demo serves its files")
	server.Serve() // until it is unmounted, or a signal ends this process
	return nil
}

// demo is a directory of three files, none of which is stored.
type demo struct {
	fuse.RawFileSystem
	began time.Time
}

const demoTime = "2006-01-02T15:04:05Z"

// demoLine is what the log has in each second. All lines have one length, so that the log need not
// be kept.
func (d *demo) demoLine(second uint64) string {
	return fmt.Sprintf("%s second %10d of process %10d\n", d.began.Add(time.Duration(second)*time.Second).Format(demoTime), second, os.Getpid())
}

// demoFiles are the files by their node ids, from 2 on. A file's content is asked for anew by each
// read.
var demoFiles = []struct {
	name string
	size func(d *demo) uint64
	read func(d *demo, from, to uint64) []byte
}{
	{"README", func(*demo) uint64 { return uint64(len(demoReadme)) }, func(_ *demo, from, to uint64) []byte { return []byte(demoReadme)[from:to] }},
	{"clock", func(*demo) uint64 { return uint64(len(demoTime) + 1) }, func(_ *demo, from, to uint64) []byte {
		return time.Now().UTC().AppendFormat(nil, demoTime+"\n")[from:to]
	}},
	{"log", func(d *demo) uint64 {
		return uint64(len(d.demoLine(0))) * uint64(time.Since(d.began)/time.Second+1)
	}, func(d *demo, from, to uint64) (text []byte) {
		length := uint64(len(d.demoLine(0)))
		for second := from / length; second*length < to; second++ {
			text = append(text, d.demoLine(second)...)
		}
		return text[from%length:][:to-from]
	}},
}

const firstDemoFile = fuse.FUSE_ROOT_ID + 1

func (d *demo) attributes(node uint64, attr *fuse.Attr) fuse.Status {
	switch at := node - firstDemoFile; {
	case node == fuse.FUSE_ROOT_ID:
		*attr = fuse.Attr{Ino: node, Mode: unix.S_IFDIR | 0o555, Nlink: 2}
	case at < uint64(len(demoFiles)):
		*attr = fuse.Attr{Ino: node, Mode: unix.S_IFREG | 0o444, Nlink: 1, Size: demoFiles[at].size(d)}
	default:
		return fuse.Status(unix.ESTALE)
	}
	now := time.Now()
	attr.SetTimes(&now, &now, &now)
	return fuse.OK
}

func (d *demo) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	return d.attributes(in.NodeId, &out.Attr)
}

func (d *demo) Lookup(_ <-chan struct{}, _ *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	for i, file := range demoFiles {
		if file.name == name {
			out.NodeId = firstDemoFile + uint64(i)
			return d.attributes(out.NodeId, &out.Attr)
		}
	}
	return fuse.ENOENT
}

func (d *demo) OpenDir(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status { return fuse.OK }

func (d *demo) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	for i := in.Offset; i < uint64(len(demoFiles)); i++ {
		if !out.AddDirEntry(fuse.DirEntry{Name: demoFiles[i].name, Mode: unix.S_IFREG, Ino: firstDemoFile + i}) {
			break
		}
	}
	return fuse.OK
}

func (d *demo) StatFs(<-chan struct{}, *fuse.InHeader, *fuse.StatfsOut) fuse.Status { return fuse.OK }

func (d *demo) Open(_ <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if in.Flags&unix.O_ACCMODE != unix.O_RDONLY {
		return fuse.EROFS
	}
	out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_NOFLUSH // the kernel caches no content, and close(2) waits for nobody
	return fuse.OK
}

func (d *demo) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	at := in.NodeId - firstDemoFile
	if at >= uint64(len(demoFiles)) {
		return nil, fuse.Status(unix.ESTALE)
	}
	to := min(demoFiles[at].size(d), in.Offset+uint64(in.Size))
	return fuse.ReadResultData(demoFiles[at].read(d, min(in.Offset, to), to)), fuse.OK
}
