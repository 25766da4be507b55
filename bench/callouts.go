package main

import (
	"golang.org/x/sys/unix"
)

// ladder measures call-outs and memory at more and more volumes.
func (b *bench) ladder() error {
	mounted := 0
	for _, level := range b.settings.levels {
		for ; mounted < level; mounted++ {
			if err := b.ctx.Err(); err != nil {
				return err
			}
			if _, err := b.driver.mount(mounted + 1); err != nil {
				return err
			}
		}
		if level > 0 {
			if err := b.memory(level); err != nil {
				return err
			}
		}
		if level == 1 || b.settings.calls == 0 {
			continue // for memory only
		}
		b.say("call-outs with %d volumes", level)
		if err := b.callOuts(level); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) callOuts(level int) error {
	// The pod that comes and goes.
	const guest = 1 << 20
	for range b.settings.coldCalls {
		if err := b.coldCalls(level, guest); err != nil {
			return err
		}
	}
	// Whatever was cold: from here on there is a daemon. The first round is not counted.
	if _, err := b.driver.mount(guest); err != nil {
		return err
	}
	if _, err := b.driver.unmount(guest); err != nil {
		return err
	}
	if _, err := b.driver.pids(); err != nil {
		return err
	}
	for range b.settings.calls {
		if err := b.ctx.Err(); err != nil {
			return err
		}
		for _, what := range []string{"nothing", "bind", "init", "mount", "unmount"} {
			c, err := b.call(what, guest)
			if err != nil {
				return err
			}
			b.cost(what, level, "warm", c)
		}
	}
	return nil
}

func (b *bench) cost(what string, level int, temperature string, c cost) {
	b.figures.add(callName(what, level, temperature, "wall"), c.wall)
	b.figures.add(callName(what, level, temperature, "cpu"), c.cpu)
}

// call runs one program.
func (b *bench) call(what string, pod int) (cost, error) {
	switch what {
	case "nothing":
		c, _, err := timed(b.other("nothing"))
		return c, err
	case "bind":
		c, _, err := timed(b.other("bind"), b.source(), b.target())
		if err != nil {
			return c, err
		}
		return c, unix.Unmount(b.target(), 0)
	case "mount":
		return b.driver.mount(pod)
	case "unmount":
		return b.driver.unmount(pod)
	}
	return b.driver.callOut(what)
}
