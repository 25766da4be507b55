// Threads reads a file from several threads of one process, as Java's and Go's
// programs do. It prints what each of them read, then its own PID as it sees it,
// and stays until its standard input ends.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
)

const threads = 4

func main() {
	answers := make(chan string)
	for range threads {
		go func() {
			// The thread is this goroutine's for ever: each has one of its own.
			runtime.LockOSThread()
			content, err := os.ReadFile(os.Args[1])
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			answers <- string(content)
			select {}
		}()
	}
	for range threads {
		fmt.Print(<-answers)
	}
	fmt.Println(os.Getpid())
	io.Copy(io.Discard, os.Stdin)
}
