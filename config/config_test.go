package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"example.com/pod-info-fuse/config"
)

func TestLoad(t *testing.T) {
	for _, row := range []struct{ text, log, problem string }{
		{`{}`, "", ""},
		{`{"log": "syslog"}`, "syslog", ""},
		{`{"log": "/var/log/driver.log"}`, "/var/log/driver.log", ""},
		{`{"log": "off"}` + "\n", "off", ""},
		{`{"log": "driver.log"}`, "", `"driver.log"`},
		{`{"logs": "off"}`, "", `"logs"`},
		{`{"log": 1}`, "", "number"},
		{`{"log": "off"} {}`, "", "text after"},
		{``, "", "EOF"},
		{`log: off`, "", "invalid character"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, config.FileName), []byte(row.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := config.Load(dir)
		if row.problem == "" {
			if err != nil || got.Log != row.log {
				t.Errorf("%s: %+v, %v", row.text, got, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), row.problem) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: error %v, want one with %s and the path", row.text, err, row.problem)
		}
	}
}

func TestSELinuxContext(t *testing.T) {
	const label = "system_u:object_r:container_file_t:s0"
	for _, row := range []struct{ value, want, problem string }{
		{`""`, label, ""},
		{`"none"`, "", ""},
		{`"system_u:object_r:usr_t:s0:c1,c2"`, "system_u:object_r:usr_t:s0:c1,c2", ""},
		{`"None"`, "", "user:role:type:level"},
		{`"container_file_t"`, "", "user:role:type:level"},
		{`"system_u:object_r:usr_t:s0\",dev,x=\""`, "", "other characters"},
		{`false`, "", "bool"},
	} {
		dir := t.TempDir()
		text := `{"selinuxContext": ` + row.value + `}`
		if err := os.WriteFile(filepath.Join(dir, config.FileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := config.Load(dir)
		if row.problem == "" {
			if err != nil || got.Label() != row.want {
				t.Errorf("%s: %q, %v", text, got.Label(), err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), row.problem) || !strings.Contains(err.Error(), "selinuxContext") {
			t.Errorf("%s: error %v, want one with %s and the key", text, err, row.problem)
		}
	}
	if got := (config.Config{}).Label(); got != label {
		t.Errorf("without configuration: %q", got)
	}
}

func TestNoFileIsTheDefault(t *testing.T) {
	if got, err := config.Load(t.TempDir()); err != nil || !reflect.DeepEqual(got, config.Config{}) {
		t.Errorf("%+v, %v", got, err)
	}
}
