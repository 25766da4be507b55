package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// containers are the numbers of containers beside which unmount is measured. A container is a
// process in a mount namespace of its own.
var containers = []int{0, 500}

// besideContainers measures unmount beside containers, none of which has the volume.
func (b *bench) besideContainers() error {
	const guest = 1 << 20
	if _, err := b.driver.mount(guest); err != nil {
		return err
	}
	if _, err := b.driver.unmount(guest); err != nil {
		return err
	}
	if _, err := b.driver.pids(); err != nil {
		return err
	}
	for _, number := range containers {
		if err := b.unmountBeside(number, guest); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) unmountBeside(number, guest int) (err error) {
	var all []*exec.Cmd
	defer func() {
		for _, c := range all {
			err = errors.Join(err, c.Process.Kill())
			_ = c.Wait() // it was killed
		}
	}()
	for range number {
		c := exec.Command("unshare", "--mount", "--propagation", "private", "sleep", "infinity")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			return err
		}
		all = append(all, c)
	}
	for _, c := range all {
		comm := fmt.Sprintf("/proc/%d/comm", c.Process.Pid)
		for name := []byte(nil); string(name) != "sleep\n"; {
			if name, err = os.ReadFile(comm); err != nil {
				return err
			}
			if err := b.sleep(time.Millisecond); err != nil {
				return err
			}
		}
	}
	for range b.settings.calls {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		for _, what := range []string{"bind", "mount", "unmount"} {
			c, err := b.call(what, guest)
			if err != nil {
				return err
			}
			b.figures.add(containerName(what, number, "wall"), c.wall)
			b.figures.add(containerName(what, number, "cpu"), c.cpu)
		}
	}
	return nil
}

func containerName(what string, containers int, measure string) string {
	return "containers/" + what + "/" + strconv.Itoa(containers) + "/" + measure
}

func (b *bench) containerSection() section {
	f := b.figures
	s := section{
		title: "Call-outs beside containers", head: [4]string{"call-out", "driver", "floor", "ratio"},
		text: "Each container is a process in a mount namespace of its own. No call-out looks at them, where no daemon\n" +
			"has died. The floor is the one above.",
	}
	for _, measure := range []string{"wall", "cpu"} {
		for _, what := range []string{"mount", "unmount"} {
			for _, number := range containers {
				s.rows = append(s.rows, compared(fmt.Sprintf("`%s`, %s, %s", what, timeOf[measure], count(number, "container")),
					f[containerName(what, number, measure)], f[containerName("bind", number, measure)], "ms", "").detailIf(measure == "cpu"))
			}
		}
	}
	return s
}
