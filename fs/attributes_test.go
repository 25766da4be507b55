package fs

import (
	"errors"
	"reflect"
	"testing"

	"example.com/pod-info-fuse/survive/volume"
)

func TestAttributesComeBackFromARecord(t *testing.T) {
	for _, want := range []Attributes{{}, {Format: 1, Facts: []string{"pod.name", FactBootID}, BootID: "b"}} {
		text, err := want.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := AttributesOf(volume.Record{Attributes: text}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
}

func TestAttributesOfANewerVersionAreRefusedByName(t *testing.T) {
	for text, newer := range map[string]bool{
		`{"format":2}`: true, `{"facts":{},"format":2}`: true, `{"format":1,"facts":["pod.name","pod.later"]}`: true,
		`{"facts":[]}`: false, `[]`: false,
	} {
		if err := CheckRecord(volume.Record{Attributes: []byte(text)}); err == nil || errors.Is(err, volume.ErrNewer) != newer {
			t.Errorf("%s: %v; want that a newer version wrote it: %v", text, err, newer)
		}
	}
}
