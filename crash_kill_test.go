package warmlog_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// A process is killed again and again: while it appends, while it opens the store and
// recovers, while it closes it. What was acknowledged is there.
func TestCrashKill(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		for _, crc := range []bool{false, true} {
			t.Run(fmt.Sprintf("flushed %v crc %v", flushed, crc), func(t *testing.T) {
				t.Parallel() // it mostly waits: for the disk, and for the moment to kill
				rng := chance(t)
				for range max(1, rounds(10)/10) {
					p := plan{Dir: t.TempDir(), Flushed: flushed, CRC: crc}
					var j journal
					for round := range min(rounds(10), 10) {
						killOnce(t, rng, &j, p, round)
						if t.Failed() {
							t.Fatalf("round %d, in %s", round, p.Dir)
						}
					}
				}
			})
		}
	}
}

// killOnce runs a child and kills it at some moment.
func killOnce(t *testing.T, rng *rand.Rand, j *journal, p plan, round int) {
	switch round % 4 {
	case 1:
		// While it is opened: several times, so that recovery continues a recovery.
		for range 3 {
			c := j.start(t, p)
			time.Sleep(time.Duration(rng.IntN(40)) * time.Millisecond)
			j.kill(c)
		}
	case 2:
		p.CloseAfter = 1 + rng.IntN(50)
	}
	c := j.start(t, p)
	select {
	case <-j.opened:
	case <-j.ended:
	}
	if p.CloseAfter > 0 {
		select {
		case <-j.closing:
		case <-j.ended:
		}
		time.Sleep(time.Duration(rng.IntN(15000)) * time.Microsecond)
	} else {
		time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
	}
	j.kill(c)
	for _, err := range j.errors {
		t.Errorf("round %d: the child: %s", round, err)
	}
	acks := j.told(false)
	t.Logf("round %d: %d acknowledged", round, len(acks))
	if round%2 == 0 { // else the next child recovers it
		s, err := openCrashed(p)
		must(t, err)
		entire(t, s, acks)
		must(t, s.Close())
		reopen(t, p, acks)
	}
}
