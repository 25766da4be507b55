package volume_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/volume"
)

const uid = "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1"

func good() volume.Record {
	return volume.Record{
		Dir: "/pods/a b/\n\\/ž", PodUID: uid, PodName: "web-0", PodNamespace: "shop",
		ServiceAccount: "default", Name: "info", Mounted: time.Unix(1700000000, 0).UTC(),
		Format: volume.Format, Attributes: json.RawMessage(`{"of":["the","driver"]}`),
	}
}

func TestRecordComesBackAsItWasPut(t *testing.T) {
	store := volume.Store{Dir: t.TempDir()}
	if err := store.Put(good()); err != nil {
		t.Fatal(err)
	}
	got, err := store.Get(good().ID())
	if err != nil || !reflect.DeepEqual(got, good()) {
		t.Fatalf("got %+v, %v; want %+v", got, err, good())
	}
	if ids, err := store.IDs(); err != nil || len(ids) != 1 || ids[0] != good().ID() {
		t.Fatalf("ids %v, %v", ids, err)
	}
	if err := store.Delete(good().ID()); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(good().ID()); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("after Delete: %v", err)
	}
	if err := store.Delete(good().ID()); err != nil {
		t.Fatalf("second Delete: %v", err)
	}
	if left, _ := os.ReadDir(store.Dir); len(left) != 0 {
		t.Fatalf("left over: %v", left)
	}
}

func TestARecordOfAnyLengthIsReadToItsEnd(t *testing.T) {
	store, record := volume.Store{Dir: t.TempDir()}, good()
	for length := range 2000 {
		record.Attributes = json.RawMessage(`"` + strings.Repeat("a", length) + `"`)
		if err := store.Put(record); err != nil {
			t.Fatal(err)
		}
		if got, err := store.Get(record.ID()); err != nil || !reflect.DeepEqual(got, record) {
			t.Fatalf("with attributes of %d bytes: %+v, %v", length, got, err)
		}
	}
}

func TestAFIFOInThePlaceOfARecordKeepsNobodyWaiting(t *testing.T) {
	store := volume.Store{Dir: t.TempDir()}
	if err := unix.Mkfifo(filepath.Join(store.Dir, good().ID().String()+".json"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(good().ID()); err == nil {
		t.Error("it is a record")
	}
}

func TestBadRecordIsNotStored(t *testing.T) {
	for problem, mutate := range map[string]func(*volume.Record){
		"not a pod's UID":  func(r *volume.Record) { r.PodUID = "web-0" },
		"an absolute path": func(r *volume.Record) { r.Dir = "pods/a" },
		"shortest form":    func(r *volume.Record) { r.Dir = "/pods/../a" },
		"not UTF-8":        func(r *volume.Record) { r.Dir = "/pods/\xff" },
	} {
		record := good()
		mutate(&record)
		store := volume.Store{Dir: t.TempDir()}
		if err := store.Put(record); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v", problem, err)
		}
		if left, _ := os.ReadDir(store.Dir); len(left) != 0 {
			t.Errorf("%s: left over: %v", problem, left)
		}
	}
}

func TestRecordUnderAnotherVolumesNameIsRefused(t *testing.T) {
	store := volume.Store{Dir: t.TempDir()}
	data, err := good().Encode()
	if err != nil {
		t.Fatal(err)
	}
	other := volume.NewID("/elsewhere")
	if err := os.WriteFile(filepath.Join(store.Dir, other.String()+".json"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(other); err == nil || !strings.Contains(err.Error(), good().ID().String()) {
		t.Fatalf("got %v", err)
	}
}

// Another version may be installed over this one, and this one over another.
func TestARecordOfANewerVersionIsRefusedByName(t *testing.T) {
	for text, newer := range map[string]bool{
		`{"format":2,"dir":"/a","podUID":"` + uid + `"}`:  true,
		`{"dir":{"path":"/a"},"format":2}`:                true, // what this version cannot read
		`{"dir":"/a","podUID":"` + uid + `"}`:             false,
		`{"format":-1,"dir":"/a","podUID":"` + uid + `"}`: false,
		`{"format":`: false,
	} {
		if _, err := volume.Decode([]byte(text)); err == nil || errors.Is(err, volume.ErrNewer) != newer {
			t.Errorf("%s: %v; want that a newer version wrote it: %v", text, err, newer)
		}
	}
}

func TestOnlyWhatANewerVersionWroteStopsATakeOver(t *testing.T) {
	check := func(r volume.Record) error {
		switch string(r.Attributes) {
		case `"unknown"`:
			return fmt.Errorf("not known: %w", volume.ErrNewer)
		case `"damaged"`:
			return errors.New("not readable")
		}
		return nil
	}
	for text, want := range map[string]error{
		`{"format":1,"dir":"/a","podUID":"` + uid + `"}`:                          nil,
		`{"format":1,"dir":"/a","podUID":"` + uid + `","attributes":"unknown"}`:   volume.ErrNewer,
		`{"format":1,"dir":"/a","podUID":"` + uid + `","attributes":"damaged"}`:   nil, // for each version
		`{"format":2,"dir":"/a","podUID":"` + uid + `","attributes":"whatever"}`:  volume.ErrNewer,
		`{"format":1,"dir":"/other","podUID":"` + uid + `","attributes":"known"}`: nil, // another volume's
		`{`: nil,
	} {
		store := volume.Store{Dir: t.TempDir()}
		if err := os.WriteFile(filepath.Join(store.Dir, volume.NewID("/a").String()+".json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := store.Check(check); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
}

func TestListPassesOverWhatIsNoRecord(t *testing.T) {
	store := volume.Store{Dir: t.TempDir()}
	for _, name := range []string{".new-1", "00000000000000.json", "1.json", "100000000000000.json", "0000000000ABCD.json", "0000000000abcd", "readme"} {
		if err := os.WriteFile(filepath.Join(store.Dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if ids, err := store.IDs(); err != nil || len(ids) != 0 {
		t.Fatalf("ids %v, %v", ids, err)
	}
}

func TestGenerationTellsPodsApart(t *testing.T) {
	next := good()
	next.PodUID = strings.Replace(uid, "1", "2", 1)
	if next.Generation() == good().Generation() {
		t.Error("two pods on one directory have the same generation")
	}
	again := good()
	again.Mounted = again.Mounted.Add(time.Hour)
	if again.Generation() != good().Generation() {
		t.Error("the same pod on the same directory has another generation")
	}
}

func TestIsUID(t *testing.T) {
	for text, want := range map[string]bool{
		uid:                                     true,
		"1D1CD94A-5A5E-4B6C-A8C5-2C6C2EA0B4A1":  true,
		"9c5b0b2b0f7e4a0e8f0a5d8c6b7a9e1f":      true, // a static pod's
		"":                                      false,
		uid + "\n":                              false,
		uid[:35]:                                false,
		strings.Replace(uid, "-", "a", 1):       false,
		strings.Replace(uid, "a", "g", 1):       false,
		strings.Replace(uid, "a", "/", 1):       false,
		"../../../../../../etc/passwd/../../..": false,
		strings.Repeat("a", 300):                false,
		"９c5b0b2b0f7e4a0e8f0a5d8c6b7a9e":        false, // a full-width nine
	} {
		if volume.IsUID(text) != want {
			t.Errorf("IsUID(%.40q) is not %v", text, want)
		}
	}
}

func FuzzRecord(f *testing.F) {
	if data, err := good().Encode(); err != nil {
		f.Fatal(err)
	} else {
		f.Add(data)
	}
	f.Add([]byte(`{"format":1,"dir":"/a","podUID":"9c5b0b2b0f7e4a0e8f0a5d8c6b7a9e1f"}`))
	f.Add([]byte(`{"format":1,"dir":"/a","podUID":"9c5b0b2b0f7e4a0e8f0a5d8c6b7a9e1f","attributes":{ "a": "<" }}`))
	f.Add([]byte(`{"dir":"/a","podUID":"../../etc/passwd"}`))
	f.Add([]byte(`{"dir":"/a/../b","podUID":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		record, err := volume.Decode(data)
		if err != nil {
			return
		}
		if !volume.IsUID(record.PodUID) {
			t.Fatalf("accepted UID %q", record.PodUID)
		}
		again, err := record.Encode()
		if err != nil {
			t.Fatalf("decoded but cannot be encoded: %v", err)
		}
		twice, err := volume.Decode(again)
		if err != nil || !twice.Mounted.Equal(record.Mounted) {
			t.Fatalf("round trip: %v", err)
		}
		if last, err := twice.Encode(); err != nil || !bytes.Equal(again, last) {
			t.Fatalf("%s became %s, %v", again, last, err)
		}
		twice.Mounted, twice.Attributes = record.Mounted, record.Attributes
		if !reflect.DeepEqual(twice, record) {
			t.Fatalf("%+v became %+v", record, twice)
		}
	})
}

func TestTheKubeletsDirectoriesAreKnownByTheirForm(t *testing.T) {
	for dir, want := range map[string][2]string{
		"/k/pods/U/volumes/v~d/info":                        {"/k/pods", "U/volumes/v~d/info"},
		"/pods/U/volumes/v~d/mount":                         {"/pods", "U/volumes/v~d/mount"},
		"/k/pods/U/volumes/kubernetes.io~csi/info":          {"/k/pods", "U/volumes/kubernetes.io~csi/info"},
		"/k/pods/U/volumes/kubernetes.io~csi/info/mount":    {"/k/pods", "U/volumes/kubernetes.io~csi/info/mount"},
		"/k/pods/U/volumes/kubernetes.io~csi/pods/mount":    {"/k/pods", "U/volumes/kubernetes.io~csi/pods/mount"},
		"/pods/volumes/volumes/kubernetes.io~csi/v/mount":   {"/pods", "volumes/volumes/kubernetes.io~csi/v/mount"},
		"/k/pods/U/volumes/v~d/info/mount":                  {},
		"/k/pods/U/volumes/kubernetes.io~csi":               {},
		"/k/pods/U/volumes/kubernetes.io~csi/info/mount/it": {},
		"/k/pods/U/plugins/kubernetes.io~csi/info/mount":    {},
		"/mount": {},
		"":       {},
	} {
		pods, rest, ok := volume.SplitDir(dir)
		if ok != (want[0] != "") || ok && [2]string{pods, rest} != want {
			t.Errorf("%s: %q, %q, %v; want %q", dir, pods, rest, ok, want)
		}
	}
}

func TestAVolumeHasOneNameWhereTheKubeletsRootIsALink(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		os.MkdirAll(base+"/disk/kubelet/pods", 0o755), os.Symlink("disk", base+"/data"), os.Symlink("data/kubelet", base+"/kubelet"),
		os.MkdirAll(base+"/disk/all", 0o755), os.Mkdir(base+"/other", 0o755), os.Symlink("../disk/all", base+"/other/pods"),
	); err != nil {
		t.Fatal(err)
	}
	const rest = "/pods/U/volumes/v~d/info"
	for dir, want := range map[string]string{
		base + "/disk/kubelet" + rest:       base + "/disk/kubelet" + rest,
		base + "/kubelet" + rest:            base + "/disk/kubelet" + rest,
		base + "/kubelet" + rest + "/":      base + "/disk/kubelet" + rest,
		base + "/data/kubelet" + rest:       base + "/disk/kubelet" + rest,
		base + "/data/kubelet/elsewhere":    base + "/data/kubelet/elsewhere",
		base + "/other" + rest:              base + "/other" + rest, // its directory of pods has another name
		base + "/nothing" + rest:            base + "/nothing" + rest,
		"relative" + rest:                   "",
		"/":                                 "",
		base + "/kubelet/../kubelet" + rest: "",
	} {
		if got, err := volume.CleanDir(dir); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v, want %q", dir, got, err, want)
		}
	}
}
