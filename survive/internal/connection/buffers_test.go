package connection

import "testing"

// The kernel hands a request only to a server that has room for the largest write.
func TestAConnectionThatRecordsNoWriteHasRoomForTheLargest(t *testing.T) {
	const headers = 80 // fuse_in_header and fuse_write_in
	for text, most := range map[string]int{
		`{"format": 1, "major": 7, "maxRead": 131072}`:                    131072,
		`{"format": 1, "major": 7, "maxRead": 131072, "maxWrite": 4096}`:  4096,
		`{"format": 1, "major": 7, "maxRead": 131072, "maxWrite": 20000}`: 20000,
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
