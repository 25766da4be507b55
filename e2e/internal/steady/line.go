package steady

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// A Line is what was seen at a time of a process, or of what takes time, as a line of JSON.
type Line struct {
	At      time.Time          `json:"at"`
	Name    string             `json:"name"`
	Figures map[string]float64 `json:"figures"`
}

// Write writes lines, if somebody wants them.
func Write(to io.Writer, lines ...Line) error {
	if to == nil {
		return nil
	}
	encoder := json.NewEncoder(to)
	for _, one := range lines {
		if err := encoder.Encode(one); err != nil {
			return fmt.Errorf("write what was seen: %w", err)
		}
	}
	return nil
}

// Read reads all lines.
func Read(from io.Reader) (lines []Line, err error) {
	for decoder := json.NewDecoder(from); ; {
		var one Line
		if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
			return lines, nil
		} else if err != nil {
			return lines, fmt.Errorf("read what was seen: %w", err)
		}
		lines = append(lines, one)
	}
}
