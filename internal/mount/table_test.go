package mount

import "testing"

func TestATableKnowsWhatWasMountedAfterItWasRead(t *testing.T) {
	var table Table
	for _, source := range []string{"early", "late"} {
		dir := tmpfs(t, source)
		point, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer point.Close()
		if info, err := table.Info(point); err != nil || info == nil || info.Source != source {
			t.Errorf("%+v, %v; want %s", info, err, source)
		}
		if err := point.Detach(); err != nil {
			t.Error(err)
		}
	}
}
