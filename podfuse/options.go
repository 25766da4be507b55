package podfuse

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/survive/volume"
)

// The options of the pod's author.
const (
	OptionServes             = "serves"              // of a server volume: the name of the client volume
	OptionWait               = "wait"                // of a client volume: how long an outage is waited for
	OptionDefaultPermissions = "default_permissions" // of a client volume: the kernel checks modes and owners
	// OptionProgram is of a client volume whose program an admission policy has put into the pod.
	// The volume's other options are for the policy, and stay in the pod.
	OptionProgram = "program"
)

const (
	// DefaultWait is how long an outage is waited for where no option says it.
	DefaultWait = 30 * time.Second
	// MostWait is the longest.
	MostWait = 24 * time.Hour
)

// Attributes are a record's, for either kind of volume.
type Attributes struct {
	Format int `json:"format"`
	// Serves is the name of the client volume that a server volume is for; "" for a client.
	Serves string `json:"serves,omitempty"`
	// Wait is how long those who touch the volume wait for a program, from the start of an
	// outage. 0: not at all.
	Wait               time.Duration `json:"wait,omitempty"`
	DefaultPermissions bool          `json:"defaultPermissions,omitempty"`
}

const attributesFormat = 1

// Check reads the options of a mount into the record's attributes, or refuses them.
func Check(options flex.Options, r *volume.Record) error {
	a := Attributes{Format: attributesFormat, Wait: DefaultWait}
	given := map[string]bool{}
	for key, value := range options.Own() {
		given[key] = true
		var err error
		switch key {
		case OptionServes:
			a.Serves, err = value, checkName(value)
		case OptionWait:
			a.Wait, err = parseWait(value)
		case OptionDefaultPermissions:
			a.DefaultPermissions, err = parseBool(value)
		case OptionProgram:
		default:
			if _, forPolicy := options.Lookup(OptionProgram); forPolicy {
				continue
			}
			return fmt.Errorf("option %q is not known; remove it from the pod's volume", key)
		}
		if err != nil {
			return fmt.Errorf("option %q: %w", key, err)
		}
	}
	for _, key := range []string{OptionWait, OptionDefaultPermissions, OptionProgram} {
		if given[OptionServes] && given[key] {
			return fmt.Errorf("option %q is for the volume that is served, and not for one with %q", key, OptionServes)
		}
	}
	if given[OptionServes] {
		a.Wait = 0
	}
	var err error
	r.Attributes, err = json.Marshal(a)
	return err
}

// checkName checks the name of a volume, which may be a persistent volume's: labels with dots
// between (k8s.io/apimachinery, IsDNS1123Subdomain).
func checkName(name string) error {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(name) > 253 || strings.Trim(label, letters+"-") != "" || strings.Trim(label, "-") != label {
			return fmt.Errorf("%.70q is not the name of a volume", name)
		}
	}
	return nil
}

func parseWait(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 || wait > MostWait {
		return 0, fmt.Errorf("%.40q is not a time such as 30s or 5m, of at most %v", text, MostWait)
	}
	return wait, nil
}

func parseBool(text string) (bool, error) {
	if text != "true" && text != "false" {
		return false, fmt.Errorf("%.40q is neither true nor false", text)
	}
	return text == "true", nil
}

// AttributesOf reads a record's. The error wraps [volume.ErrNewer] if a newer version wrote them.
func AttributesOf(r volume.Record) (a Attributes, err error) {
	if len(r.Attributes) == 0 { // its record was lost, and made anew of what is mounted
		return Attributes{Format: attributesFormat, Wait: DefaultWait}, nil
	}
	if err := volume.Unmarshal(r.Attributes, &a, &a.Format, attributesFormat); err != nil {
		return Attributes{}, fmt.Errorf("attributes of volume %s: %w", r.Dir, err)
	}
	return a, nil
}

// ErrNotServer says that a record is not of a server volume.
var ErrNotServer = errors.New("it is no server volume")

// Client is the volume that a server volume is for: the one of that name in the same pod, which for
// a claim is the persistent volume's. The kubelet may not have mounted it yet.
func Client(server volume.Record) (volume.ID, error) {
	a, err := AttributesOf(server)
	if err == nil && a.Serves == "" {
		err = ErrNotServer
	}
	if err != nil {
		return 0, err
	}
	return volume.NewID(volume.Beside(server.Dir, a.Serves)), nil
}
