package flex

import (
	"bytes"
	"encoding/json"
)

// Status is the outcome of a call-out. The kubelet knows these three words.
type Status string

const (
	Success      Status = "Success"
	Failure      Status = "Failure"
	NotSupported Status = "Not supported"
)

// Answer is what a call-out prints: the kubelet's DriverStatus.
type Answer struct {
	Status  Status `json:"status"`
	Message string `json:"message,omitempty"`
	// Invalid says of a Failure that the caller's arguments are wrong; see [Invalid]. The kubelet
	// decodes none but its own fields (kubernetes v1.34, pkg/volume/flexvolume/driver-call.go).
	Invalid bool `json:"invalid,omitempty"`

	// Capabilities are set in the answer to init, and only there.
	Capabilities *Capabilities `json:"capabilities,omitempty"`

	Device     string `json:"device,omitempty"`
	VolumeName string `json:"volumeName,omitempty"`
	Attached   *bool  `json:"attached,omitempty"`
	VolumeSize int64  `json:"volumeNewSize,omitempty"` // bytes
}

// Encode returns the answer as one line of JSON. Bytes of a message that are
// not UTF-8 come out as U+FFFD.
func (a Answer) Encode() []byte {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false) // messages are read by people: "<" stays "<"
	if err := encoder.Encode(a); err != nil {
		panic(err) // strings, numbers and booleans can always be encoded
	}
	return line.Bytes()
}

func fail(err error) Answer {
	return Answer{Status: Failure, Message: err.Error(), Invalid: isInvalid(err)}
}
