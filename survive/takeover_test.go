package survive_test

import (
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

// A call-out that asks for the pair's locks while one process takes over from the other must
// not find both free: it would end a healthy pair. In this build the moment is long enough to
// be hit.
func TestATakeOverIsNoLoss(t *testing.T) {
	for _, name := range []string{"init", "restore"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits for seconds
			d := testnode.Install(t)
			d.ReplaceBinary(testnode.Build(t, "1.2.3", "slow"))
			l := readAtTimes(t, d.Mount())
			quick := d.By(testnode.Binary) // for what only looks
			for takeovers := range 2 {
				active, standby := quick.Pair()
				testnode.Kill(t, active)
				if output, err := d.Command(name).CombinedOutput(); err != nil {
					t.Errorf("%v: %s", err, output)
				}
				if s := quick.Status().Daemon; s.Active == nil || s.Active.PID != standby || s.Takeovers != takeovers+1 {
					t.Fatalf("%+v; want process %d to be active, after %d take-overs", s, standby, takeovers+1)
				}
				l.goesOn()
			}
			l.stop()
		})
	}
}
