//go:build programs

package pod_test

import (
	"encoding/xml"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// What programs of others are given to serve: a file with this name and content.
const fileName, fileContent = "hello", "hello, world\n"

// foreign is a program of others. In its arguments, SRC is a directory that its user owns, with
// the subdirectory files, which has the file.
type foreign struct {
	name    string
	prepare string // a script, executed in SRC as the user
	args    string // but for the mount point
	// empty tells that it begins without the file, which is written by way of it.
	empty bool
	// fd is in what it prints when it is told /dev/fd/N; "": it serves.
	fd string
}

const sshScript = `printf '#!/bin/sh\nexec /usr/lib/openssh/sftp-server\n' > ssh && chmod +x ssh`

// unknown is what the proxy says to libraries that take /dev/fd/N for a directory.
const unknown = "this program does not know that /dev/fd/N means a descriptor"

var foreigners = []foreign{
	{name: "bindfs", args: "bindfs -f SRC/files", fd: unknown},
	{name: "sshfs", prepare: sshScript, args: "sshfs -f -o ssh_command=SRC/ssh host:SRC/files"},
	{name: "squashfuse", prepare: "mksquashfs files image -quiet", args: "squashfuse -f SRC/image"},
	{name: "squashfuse_ll", prepare: "mksquashfs files image -quiet", args: "squashfuse_ll -f SRC/image"},
	{name: "gocryptfs", empty: true, prepare: "echo secret > pass; mkdir cipher; gocryptfs -q -init -scryptn 10 -passfile pass cipher",
		args: "gocryptfs -fg -passfile SRC/pass SRC/cipher"},
	{name: "unionfs", prepare: "mkdir over", args: "unionfs -f -o cow SRC/over=RW:SRC/files=RO", fd: unknown},
	{name: "archivemount", prepare: "tar -C files -cf image .", args: "archivemount -f SRC/image", fd: "Not a directory"},
	{name: "fuse-zip", prepare: "cd files; zip -q ../image.zip hello", args: "fuse-zip -f SRC/image.zip", fd: unknown},
	{name: "mergerfs", prepare: "mkdir over", args: "mergerfs -f SRC/over:SRC/files", fd: unknown},
	{name: "fuse-overlayfs", prepare: "mkdir over work", args: "fuse-overlayfs -f -o lowerdir=SRC/files,upperdir=SRC/over,workdir=SRC/work"},
	{name: "s3fs", prepare: "echo key:secret > pass; chmod 600 pass", args: "s3fs bucket -f -o url=S3,use_path_request_style,passwd_file=SRC/pass,umask=0022",
		fd: "s3fs: MOUNTPOINT: /dev/fd/3 is not a directory."},
	{name: "rclone mount", args: "rclone mount SRC/files", fd: "exit status 1"},
	{name: "rclone mount2", args: "rclone mount2 SRC/files"},
	{name: "jacobsa/fuse mount_hello", args: "mount_hello --mount_point"},
}

// TestForeignPrograms shows that unchanged programs serve, by both ways, as root and as a user.
func TestForeignPrograms(t *testing.T) {
	s3 := serveS3(t)
	bin := t.TempDir()
	for dir := bin; dir != os.TempDir(); dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
	install := exec.Command("go", "install", "github.com/jacobsa/fuse/samples/mount_hello@v0.0.0-20260630194014-a124548f6da7")
	install.Env = append(os.Environ(), "GOBIN="+bin, "CGO_ENABLED=0", "GOFLAGS=")
	if output, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	table := map[string][]string{}
	for _, program := range foreigners {
		for _, way := range []string{"fusermount", "/dev/fd/N"} {
			for _, uid := range []int{1000, 0} {
				result := "not tried"
				t.Run(fmt.Sprintf("%s/%s/%d", program.name, strings.TrimPrefix(way, "/dev/"), uid), func(t *testing.T) {
					result = program.try(t, way, uid, map[string]string{"S3": s3}, bin)
					want := "serves"
					if way == "/dev/fd/N" && program.fd != "" {
						want = program.fd
					}
					if !strings.Contains(result, want) {
						t.Errorf("%s; want %s", result, want)
					} else {
						result = want
					}
				})
				table[program.name] = append(table[program.name], result)
			}
		}
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "program\t| fusermount, uid 1000\t| uid 0\t| /dev/fd/N, uid 1000\t| uid 0")
	for _, program := range foreigners {
		fmt.Fprintln(w, program.name+"\t| "+strings.Join(table[program.name], "\t| "))
	}
	w.Flush()
	t.Logf("\n%s", text.String())
}

// try has a program serve, and returns "serves" or what it prints.
func (f foreign) try(t *testing.T, way string, uid int, words map[string]string, bin string) string {
	d := newNode(t).start()
	source := filepath.Join(filepath.Dir(d.serverDir()), "src")
	must(t, os.MkdirAll(filepath.Join(source, "files"), 0o755))
	must(t, os.WriteFile(filepath.Join(source, "files", fileName), []byte(fileContent), 0o644))
	must(t, exec.Command("chown", "-R", fmt.Sprint(uid), source).Run())
	env := []string{"HOME=" + source, "PATH=" + bin + ":/usr/sbin:/usr/bin:/sbin:/bin"}
	if p := d.contain(container{UID: uid, Env: env, Args: []string{"sh", "-ec", "cd " + source + "\n" + f.prepare}}); p.status() != 0 {
		t.Fatalf("prepare: %s", p.text())
	}
	line := strings.ReplaceAll(f.args, "SRC", source)
	for word, value := range words {
		line = strings.ReplaceAll(line, word, value)
	}
	args, at := append(strings.Fields(line), d.own()), d.own()
	if way == "/dev/fd/N" {
		args[len(args)-1], at = "{}", d.at
		args = append([]string{filepath.Join(d.serverDir(), "pod-fuse"), "run", "--"}, args...)
	}
	p := d.contain(container{UID: uid, Env: env, Args: args, Binds: map[string]string{
		"/usr/bin/fusermount3":         filepath.Join(d.dir, "fusermount3"),
		"/usr/bin/mergerfs-fusermount": filepath.Join(d.dir, "mergerfs-fusermount"),
	}})
	for end := time.Now().Add(hang); ; time.Sleep(5 * time.Millisecond) {
		if text, err := f.read(at); err == nil && strings.HasPrefix(strings.ToLower(text), "hello, world") {
			break
		}
		select {
		case <-p.done:
			return "ends: " + p.text()
		default:
		}
		if time.Now().After(end) {
			return "does not serve: " + p.text()
		}
	}
	p.signal(unix.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		t.Logf("it does not end at SIGTERM")
	}
	return "serves"
}

// read returns the file's content, by a FUSE mount that may hang.
func (f foreign) read(at string) (text string, err error) {
	done := make(chan bool, 1)
	go func() {
		defer close(done)
		var stat unix.Statfs_t
		if err = unix.Statfs(at, &stat); err == nil && stat.Type != unix.FUSE_SUPER_MAGIC {
			err = unix.ENODEV
		}
		if err == nil && f.empty {
			err = os.WriteFile(filepath.Join(at, fileName), []byte(fileContent), 0o644)
		}
		if err == nil {
			var content []byte
			content, err = os.ReadFile(filepath.Join(at, fileName))
			text = string(content)
		}
	}()
	select {
	case <-done:
		return text, err
	case <-time.After(5 * time.Second):
		return "", unix.ETIMEDOUT
	}
}

// serveS3 is as much of S3 as s3fs needs to read one object. It is no test of s3fs.
func serveS3(t *testing.T) (url string) {
	type object struct {
		Key          string
		LastModified string
		ETag         string
		Size         int
		StorageClass string
	}
	type list struct {
		XMLName  xml.Name `xml:"http://s3.amazonaws.com/doc/2006-03-01/ ListBucketResult"`
		Name     string
		Contents []object
	}
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch strings.TrimSuffix(r.URL.Path, "/") {
		case "/bucket":
			w.Header().Set("Content-Type", "application/xml")
			_ = xml.NewEncoder(w).Encode(list{Name: "bucket", Contents: []object{{
				fileName, "2026-01-01T00:00:00.000Z", `"a"`, len(fileContent), "STANDARD"}}})
		case "/bucket/" + fileName:
			w.Header().Set("ETag", `"a"`)
			http.ServeContent(w, r, "", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), strings.NewReader(fileContent))
		default:
			http.NotFound(w, r)
		}
	})}
	go server.Serve(listen)
	t.Cleanup(func() { server.Close() })
	return "http://" + listen.Addr().String()
}
