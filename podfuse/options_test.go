package podfuse_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/survive/volume"
)

// checked returns the attributes that a record gets of options, in JSON.
func checked(t *testing.T, options string) (podfuse.Attributes, error) {
	parsed, err := flex.ParseOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	var record volume.Record
	if err := podfuse.Check(parsed, &record); err != nil {
		return podfuse.Attributes{}, err
	}
	return podfuse.AttributesOf(record)
}

func TestOptions(t *testing.T) {
	for options, want := range map[string]podfuse.Attributes{
		`{}`:                               {Wait: podfuse.DefaultWait},
		`{"wait": "1m30s"}`:                {Wait: 90 * time.Second},
		`{"wait": "0"}`:                    {},
		`{"default_permissions": "true"}`:  {Wait: podfuse.DefaultWait, DefaultPermissions: true},
		`{"default_permissions": "false"}`: {Wait: podfuse.DefaultWait},
		`{"serves": "data"}`:               {Serves: "data"},
		`{"kubernetes.io/pod.name": "p"}`:  {Wait: podfuse.DefaultWait},
		`{"program": "s3fs", "bucket": "b", "-o": "x,y"}`: {Wait: podfuse.DefaultWait},
		`{"program": "s3fs", "a": "b", "wait": "5s"}`:     {Wait: 5 * time.Second},
		`{"serves": "pv.of-a.claim"}`:                     {Serves: "pv.of-a.claim"},
	} {
		want.Format = 1
		if got, err := checked(t, options); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", options, got, err, want)
		}
	}
}

func TestOptionsThatAreRefused(t *testing.T) {
	for options, problem := range map[string]string{
		`{"wait": "soon"}`:                               `"soon" is not a time`,
		`{"wait": "-1s"}`:                                `"-1s" is not a time`,
		`{"wait": "25h"}`:                                "at most 24h",
		`{"wait": "30"}`:                                 `"30" is not a time`,
		`{"wait": ""}`:                                   "is not a time",
		`{"default_permissions": "yes"}`:                 "neither true nor false",
		`{"serves": ""}`:                                 "not the name of a volume",
		`{"serves": "../data"}`:                          "not the name of a volume",
		`{"serves": "Data"}`:                             "not the name of a volume",
		`{"serves": "data-"}`:                            "not the name of a volume",
		`{"serves": "a..b"}`:                             "not the name of a volume",
		`{"serves": "data", "wait": "1s"}`:               `"wait"`,
		`{"serves": "d", "default_permissions": "true"}`: `"default_permissions"`,
		`{"serves": "d", "program": "s3fs"}`:             `"program"`,
		`{"serves": "a.-b"}`:                             "not the name of a volume",
		`{"serves": "` + strings.Repeat("a", 254) + `"}`: "not the name of a volume",
		`{"program": "s3fs", "wait": "soon"}`:            `"soon" is not a time`,
		`{"server": "data"}`:                             `"server" is not known`,
		`{"allow_other": "true"}`:                        `"allow_other" is not known`,
	} {
		if _, err := checked(t, options); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: error %v, want one with %s", options, err, problem)
		}
	}
}

func TestAServerVolumeIsForAVolumeOfItsPod(t *testing.T) {
	const volumes = "/var/lib/kubelet/pods/1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1/volumes/example.com~pod-fuse/"
	server := volume.Record{Attributes: json.RawMessage(`{"format": 1, "serves": "data"}`)}
	const csi = "/var/lib/kubelet/pods/1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1/volumes/kubernetes.io~csi/"
	for dir, want := range map[string]string{csi + "data-server/mount": csi + "data/mount", "/tmp/x/data-server": "/tmp/x/data", volumes + "data-server": volumes + "data"} {
		server.Dir = dir
		if client, err := podfuse.Client(server); err != nil || client != volume.NewID(want) {
			t.Errorf("%s: %v, %v", dir, client, err)
		}
	}
	server.Attributes = nil
	if client, err := podfuse.Client(server); err == nil {
		t.Errorf("a client volume serves %v", client)
	}
	server.Attributes = json.RawMessage(`{"format": 2}`)
	if _, err := podfuse.Client(server); err == nil {
		t.Error("attributes of a later version are understood")
	}
}
