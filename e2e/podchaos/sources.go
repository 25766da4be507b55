package main

import (
	"archive/tar"
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// sources make the files that the programs serve, and run the servers of programs that read from a
// network.
type sources struct {
	dir     string
	uid     int
	modules string // a directory of programs
	sftp    struct{ port, tree string }
	s3, gcs struct{ address string }

	listener net.Listener
	servers  []*exec.Cmd
}

// Of the S3 server, which is on the loopback and lives as long as the suite.
const s3Key, s3Secret = "podchaos", "podchaos-secret"

// startSources starts an SFTP server for a tree below a directory.
func startSources(s settings, dir string) (*sources, error) {
	modules, err := filepath.Abs(s.modules)
	if err != nil {
		return nil, err
	}
	src := &sources{dir: dir, uid: s.uid, modules: modules}
	return src, src.serveSFTP()
}

// serveSFTP lets Debian's sftp-server answer each connection, as inetd would: without ssh(1)
// between, which has nothing to do with FUSE.
func (s *sources) serveSFTP() error {
	s.sftp.tree = filepath.Join(s.dir, "sftp", "tree")
	err := errors.Join(os.MkdirAll(s.sftp.tree, 0o755), writeTree(s.sftp.tree, true, s.uid))
	if err != nil {
		return err
	}
	if s.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	_, s.sftp.port, err = net.SplitHostPort(s.listener.Addr().String())
	go func() {
		for {
			connection, err := s.listener.Accept()
			if err != nil {
				return // closed
			}
			go s.serveOne(connection)
		}
	}()
	return err
}

func (s *sources) serveOne(connection net.Conn) {
	defer connection.Close()
	file, err := connection.(*net.TCPConn).File()
	if err != nil {
		return
	}
	defer file.Close()
	cmd := exec.Command("/usr/lib/openssh/sftp-server")
	cmd.Stdin, cmd.Stdout = file, file
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.uid)}}
	_ = cmd.Run() // ends with the connection
}

// serve starts a server of buckets, of which there is one, and returns its address.
func (s *sources) serve(name string, line func(address, host, port, buckets string) []string) (address string, err error) {
	buckets := filepath.Join(s.dir, name)
	tree := filepath.Join(buckets, "bucket")
	if err := errors.Join(os.MkdirAll(tree, 0o755), writeTree(tree, false, s.uid)); err != nil {
		return "", err
	}
	// Of the loopback's addresses, one that nobody else has: or the port could be taken before the
	// server takes it.
	random := rand.Uint32()
	free, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+random%254, random>>8&0xff, 1+random>>16%254))
	if err != nil {
		return "", err
	}
	address = free.Addr().String()
	free.Close()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", err
	}
	words := line(address, host, port, buckets)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("%w; run e2e/podfuse/setup.sh", err)
	}
	s.servers = append(s.servers, cmd)
	return address, await(context.Background(), stepTimeout, func() error {
		connection, err := net.DialTimeout("tcp", address, stepTimeout)
		if err == nil {
			connection.Close()
		}
		return err
	})
}

// stop ends the servers.
func (s *sources) stop() {
	if s.listener != nil {
		s.listener.Close()
	}
	for _, one := range s.servers {
		_ = one.Process.Kill()
		_ = one.Wait()
	}
}

// bucket is one of S3, which rclone serves, and its password.
func (s *sources) bucket(dir string) (err error) {
	if s.s3.address == "" {
		s.s3.address, err = s.serve("s3", func(address, _, _, buckets string) []string {
			return []string{s.modules + "/rclone", "serve", "s3", "--config", "", "--addr", address,
				"--auth-key", s3Key + "," + s3Secret, ":local:" + buckets}
		})
	}
	file := filepath.Join(dir, "password")
	return errors.Join(err, os.WriteFile(file, []byte(s3Key+":"+s3Secret+"\n"), 0o600), os.Chown(file, s.uid, s.uid))
}

// object is a bucket of Cloud Storage, which a server of its own plays.
func (s *sources) object(string) (err error) {
	if s.gcs.address == "" {
		s.gcs.address, err = s.serve("gcs", func(address, host, port, buckets string) []string {
			return []string{s.modules + "/fake-gcs-server", "-backend", "memory", "-data", buckets, "-scheme", "http",
				"-host", host, "-port", port, "-public-host", address, "-log-level", "error"}
		})
	}
	return err
}

func (s *sources) plain(dir string) error {
	tree := filepath.Join(dir, "tree")
	return errors.Join(os.MkdirAll(tree, 0o755), writeTree(tree, true, s.uid))
}

func (s *sources) overlay(dir string) error {
	err := s.plain(dir)
	for _, name := range []string{"upper", "work"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(dir, name), 0o755), os.Chown(filepath.Join(dir, name), s.uid, s.uid))
	}
	return err
}

func (s *sources) squashfs(dir string) error {
	if err := s.plain(dir); err != nil {
		return err
	}
	return command("mksquashfs", dir+"/tree", dir+"/tree.squashfs", "-quiet", "-no-progress", "-processors", "1")
}

// cipher lets gocryptfs itself encrypt the tree: root mounts it for that.
func (s *sources) cipher(dir string) error {
	password, cipher, plain := dir+"/password", dir+"/cipher", dir+"/plain"
	err := errors.Join(os.WriteFile(password, []byte("podchaos\n"), 0o644), os.Mkdir(cipher, 0o755), os.Mkdir(plain, 0o755))
	if err != nil {
		return err
	}
	// The least cost of a password: a start is to take as long as the mount does.
	if err := command("gocryptfs", "-init", "-q", "-scryptn", "10", "-passfile", password, cipher); err != nil {
		return err
	}
	if err := command("gocryptfs", "-q", "-passfile", password, cipher, plain); err != nil {
		return err
	}
	err = writeTree(plain, true, s.uid)
	return errors.Join(err, unix.Unmount(plain, 0), chownTree(cipher, s.uid))
}

func (s *sources) tar(dir string) error {
	if err := s.plain(dir); err != nil {
		return err
	}
	file, err := os.Create(dir + "/tree.tar")
	if err != nil {
		return err
	}
	archive := tar.NewWriter(file)
	return errors.Join(archive.AddFS(os.DirFS(dir+"/tree")), archive.Close(), file.Close())
}

func (s *sources) zip(dir string) error {
	tree := filepath.Join(dir, "tree")
	file, err := os.Create(dir + "/tree.zip")
	if err != nil {
		return err
	}
	archive := zip.NewWriter(file)
	return errors.Join(os.Mkdir(tree, 0o755), writeTree(tree, false, s.uid), archive.AddFS(os.DirFS(tree)), archive.Close(), file.Close())
}

// command runs a program of the preparation.
func command(name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	output, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %q: %w: %s; e2e/podfuse/setup.sh installs what is missing", name, args, err, output)
	}
	return nil
}
