package connection

import (
	"encoding/json"
	"fmt"
)

// Params is what the kernel and the first process agreed on in FUSE_INIT
// (linux/fuse.h, struct fuse_init_in and fuse_init_out). It holds for the
// connection's whole life.
type Params struct {
	Major        uint32 `json:"major"`
	Minor        uint32 `json:"minor"`
	MaxReadAhead uint32 `json:"maxReadAhead"` // bytes
	Flags        uint64 `json:"flags"`        // FUSE_* that both sides want
}

// canResend tells whether the kernel can queue again what a server that died had
// read: since protocol 7.40, of Linux 6.9.
func (p Params) canResend() bool { return useResend && p.Minor >= 40 }

// Encode returns the parameters as they are stored.
func (p Params) Encode() []byte {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		panic(err) // numbers can always be encoded
	}
	return data
}

// DecodeParams reads what Encode returned.
func DecodeParams(data []byte) (Params, error) {
	var p Params
	if err := json.Unmarshal(data, &p); err != nil {
		return Params{}, fmt.Errorf("connection parameters: %w", err)
	}
	if p.Major != 7 {
		return Params{}, fmt.Errorf("connection parameters: FUSE protocol %d.%d, need 7.x", p.Major, p.Minor)
	}
	return p, nil
}
