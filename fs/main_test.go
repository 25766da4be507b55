package fs_test

import (
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

func TestMain(m *testing.M) {
	testnode.Main(m)
}
