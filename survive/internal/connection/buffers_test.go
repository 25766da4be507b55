package connection

import "testing"

// The kernel hands a request only to a server that has room for the largest write. Each version
// since 0.1.0 has agreed on writes of 4096 bytes.
func TestAConnectionOfAnyVersionHasRoomForTheLargestWrite(t *testing.T) {
	const most, headers = 4096, 80 // fuse_in_header and fuse_write_in
	for _, text := range []string{
		`{"format": 1, "major": 7, "maxRead": 131072}`,
		`{"format": 1, "major": 7, "maxRead": 131072, "maxWrite": 4096}`,
	} {
		agreed, err := DecodeParams([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		b, err := NewBuffers(2, agreed, func(problem string) { t.Error(problem) })
		if err != nil {
			t.Fatal(err)
		}
		for worker := range 2 {
			if request, reply := b.of(worker); len(request) < max(8192, most+headers) || len(reply) < agreed.MaxRead+headers {
				t.Errorf("%s: room for %d and %d bytes", text, len(request), len(reply))
			}
		}
	}
}
