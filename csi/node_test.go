package csi_test

import "testing"

func TestAVolumeIsPublishedAndUnpublished(t *testing.T) {
	w := serve(t)
	target := w.target(podUID, "info")
	w.mustPublish(target)
	w.reads(target)
	w.mustPublish(target)
	w.reads(target)
	w.mustUnpublish(target)
	w.isGone(target)
	w.mustUnpublish(target)
	w.isGone(target)
	if got := w.log.with("published"); got != 3 {
		t.Errorf("there are %d lines, want one of publish, and two of unpublish: %q", got, w.log.lines)
	}
}
