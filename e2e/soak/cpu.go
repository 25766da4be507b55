package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"example.com/pod-info-fuse/bench/machine"
)

// cpu is how busy the machine's CPUs were, with whatever runs there.
type cpu struct {
	mu     sync.Mutex // guards shares
	shares []float64
}

// watchCPU looks until the context ends.
func watchCPU(ctx context.Context, every time.Duration) *cpu {
	c := new(cpu)
	go func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		idle, all, _ := machine.Ticks()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			nowIdle, nowAll, _ := machine.Ticks()
			if nowAll > all {
				c.mu.Lock()
				c.shares = append(c.shares, 1-float64(nowIdle-idle)/float64(nowAll-all))
				c.mu.Unlock()
			}
			idle, all = nowIdle, nowAll
		}
	}()
	return c
}

// busy is the median share of the looks.
func (c *cpu) busy() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.shares) == 0 {
		return 0
	}
	slices.Sort(c.shares)
	return c.shares[len(c.shares)/2]
}
