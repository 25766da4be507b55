package main

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// looked is what one look at a path gave.
type looked struct {
	From  int64  `json:"from"` // as of seen
	To    int64  `json:"to"`
	Error string `json:"error,omitempty"` // ENOTCONN
}

// runLook stats a path, once, as a program does that finds its volume without a server. With
// --read, it reads what it has found.
func runLook(args []string) int {
	flags := flag.NewFlagSet("podchaos look", flag.ExitOnError)
	path := flags.String("path", "", "")
	read := flags.Bool("read", false, "a file in the root of the tree")
	_ = flags.Parse(args)
	l := looked{From: now()}
	var stat unix.Stat_t
	if err := unix.Stat(*path, &stat); err != nil {
		l.Error = errnoName(err)
	}
	l.To = now()
	if *read && l.Error == "" {
		if err := readFile(*path); err != nil {
			l.Error = errnoName(err)
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(l)
	return 0
}

func readFile(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return compareContent(fd, content(filepath.Base(path)))
}

// runSupervise starts a program again whenever it has ended, also one that has not lived long: the
// kubelet, without the time that it takes. It has no part in the program's mount.
func runSupervise(args []string) int {
	told := make(chan os.Signal, 1)
	signal.Notify(told, unix.SIGTERM)
	go func() {
		<-told
		os.Exit(0) // as it is PID 1, all end
	}()
	for {
		began := time.Now()
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		err := cmd.Run()
		println(time.Now().Format(time.StampMilli), args[0], "ended:", cmd.ProcessState.String())
		if _, start := err.(*exec.Error); start {
			return 1
		}
		if time.Since(began) < 50*time.Millisecond {
			time.Sleep(20 * time.Millisecond) // it could not begin
		}
	}
}
