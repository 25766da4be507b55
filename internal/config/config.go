// Package config reads the driver's configuration: config.json beside the
// binary. docs/configuration.md describes it for operators.
package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"example.com/pod-info-fuse/fs"
	"example.com/pod-info-fuse/selinux"
)

// Config is the driver's configuration. The zero value holds when there is no file.
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
	// Facts are those of package fs that every volume has.
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

// Parse reads the content of the file, nil if there is none.
func Parse(content []byte) (Config, error) {
	var config Config
	if content == nil {
		return config, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
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
		if !slices.Contains(fs.Facts(), name) {
			return Config{}, fmt.Errorf("facts has %q, which is not known; there are %s", name, strings.Join(fs.Facts(), ", "))
		}
	}
	if label := config.Label(); label != "" {
		if err := selinux.CheckLabel(label); err != nil {
			return Config{}, fmt.Errorf(`selinuxContext %w; "none" mounts without a label`, err)
		}
	}
	return config, nil
}
