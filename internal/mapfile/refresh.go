package mapfile

import (
	"context"
	"time"

	"github.com/warmlog/warmlog/pagecache"
)

// SetProber makes the files of the cache that are opened from now on know what of them is in
// memory: see [File.Known]. prober is called once, by the first who asks. Somebody has to call
// [Cache.Watch].
func (c *Cache) SetProber(prober func() *pagecache.Prober) { c.watch = newWatch(prober) }

// Prober returns what says which pages are in memory, nil if nothing does.
func (c *Cache) Prober() *pagecache.Prober {
	if c.watch == nil {
		return nil
	}
	return c.watch.prober()
}

// Watch looks again and again at what was in memory of the files that are asked about, until ctx
// ends, and calls each before it does: once in a [StepInterval].
func (c *Cache) Watch(ctx context.Context, each func()) {
	tick := time.NewTicker(StepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.watch.step.Add(1)
			each()
			c.refresh()
		}
	}
}

// refresh looks again at all open files that somebody has asked about lately.
func (c *Cache) refresh() {
	c.mu.Lock()
	open := make([]*Slot, len(c.mu.open))
	copy(open, c.mu.open)
	c.mu.Unlock()
	now := c.watch.step.Load()
	for _, s := range open {
		f := s.file.Load()
		if f == nil || now-f.warmth.asked.Load() > restSteps || !f.Acquire() {
			continue
		}
		f.refresh()
		f.Release()
	}
}
