// Package config reads the driver's configuration: config.json beside the
// binary. docs/configuration.md describes it for operators.
package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"example.com/pod-info-fuse/selinux"
	"example.com/pod-info-fuse/volume"
)

// FileName is the name of the file, in the directory of the binary.
const FileName = "config.json"

// Config is the driver's configuration. The zero value is what holds when
// there is no file.
type Config struct {
	// Log says where the log goes: "syslog" or "", "off", or the absolute path
	// of a file.
	Log string `json:"log"`
	// SELinuxContext is the label to mount with: a label, "" for
	// selinux.DefaultLabel, or "none".
	SELinuxContext string `json:"selinuxContext"`
	// FactsDir is the directory of the operator's facts: an absolute path, "" for
	// DefaultFactsDir, or "none".
	FactsDir string `json:"factsDir"`
	// Facts are those of package volume that every volume has.
	Facts []string `json:"facts"`
}

// DefaultFactsDir is the directory of the operator's facts, unless the configuration
// says another.
const DefaultFactsDir = "/etc/pod-info-fuse/facts.d"

// FactsPath is the directory of the operator's facts, "" for none.
func (c Config) FactsPath() string { return orDefault(c.FactsDir, DefaultFactsDir) }

// Label is the SELinux label to mount with, "" for none.
func (c Config) Label() string { return orDefault(c.SELinuxContext, selinux.DefaultLabel) }

// orDefault is a value that can be left out, and can be "none".
func orDefault(value, byDefault string) string {
	switch value {
	case "":
		return byDefault
	case "none":
		return ""
	}
	return value
}

// Load reads the configuration in a directory.
func Load(dir string) (Config, error) {
	path := filepath.Join(dir, FileName)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, nil
	} else if err != nil {
		return Config{}, err
	}
	defer file.Close()
	config, err := parse(file)
	if err != nil {
		return Config{}, fmt.Errorf("configuration %s: %w", path, err)
	}
	return config, nil
}

// Check tells whether the content of a file would be accepted.
func Check(content []byte) error {
	_, err := parse(bytes.NewReader(content))
	return err
}

func parse(text io.Reader) (Config, error) {
	var config Config
	decoder := json.NewDecoder(text)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&config); err != nil {
		return Config{}, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return Config{}, errors.New("text after the JSON object")
	}
	if l := config.Log; l != "" && l != "syslog" && l != "off" && !strings.HasPrefix(l, "/") {
		return Config{}, fmt.Errorf(`log is %q; it can be "syslog", "off" or an absolute path`, l)
	}
	if dir := config.FactsPath(); dir != "" && (filepath.Clean(dir) != dir || !filepath.IsAbs(dir) || dir == "/") {
		return Config{}, fmt.Errorf(`factsDir is %q; it can be the absolute path of a directory, in its shortest form, or "none"`, dir)
	}
	for _, name := range config.Facts {
		if !volume.IsFact(name) {
			return Config{}, fmt.Errorf("facts has %q, which is not known; there are %s", name, strings.Join(volume.AllFacts(), ", "))
		}
	}
	if label := config.Label(); label != "" {
		if err := selinux.CheckLabel(label); err != nil {
			return Config{}, fmt.Errorf(`selinuxContext %w; "none" mounts without a label`, err)
		}
	}
	return config, nil
}
