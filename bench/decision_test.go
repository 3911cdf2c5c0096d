package bench

import (
	"testing"

	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/getmessage"
)

// BenchmarkDecision pulls batches of 32 in order from a log of 1 GiB that lies in the page cache, by
// each policy; the floor is Distance, which looks at nothing.
func BenchmarkDecision(b *testing.B) {
	s := build(b, hotLog, hotNumQ, hotSeg)
	by := func(policy getmessage.Policy, seed uint64) *puller {
		store, err := warmlog.Open(s.dir, warmlog.Options{ReadOnly: true, CheckBytes: -1, Policy: policy})
		check(b, err)
		b.Cleanup(func() { store.Close() })
		return &puller{store: store, req: request(32), next: order(s, "sequential", 32, seed)}
	}
	floor := by(getmessage.Distance, 0)
	for _, policy := range []getmessage.Policy{getmessage.Hybrid, getmessage.Residency} {
		b.Run("policy="+policy.String(), func(b *testing.B) {
			p := by(policy, 1)
			b.ReportAllocs()
			alternate(b, 32, func(n int) { p.run(b, n) }, func(n int) { floor.run(b, n) })
		})
	}
}
