package config_test

import (
	"reflect"
	"strings"
	"testing"

	"example.com/pod-info-fuse/internal/config"
)

func TestParse(t *testing.T) {
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
		{`["off"]`, "", "cannot unmarshal array"},
		{"\xef\xbb\xbf{}", "", "invalid character"},
		{`{"log": "off", "log": "off"`, "", "unexpected EOF"},
	} {
		got, err := config.Parse([]byte(row.text))
		if row.problem == "" {
			if err != nil || got.Log != row.log {
				t.Errorf("%s: %+v, %v", row.text, got, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), row.problem) {
			t.Errorf("%s: error %v, want one with %s", row.text, err, row.problem)
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
		text := `{"selinuxContext": ` + row.value + `}`
		got, err := config.Parse([]byte(text))
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
	if got, err := config.Parse(nil); err != nil || !reflect.DeepEqual(got, config.Config{}) {
		t.Errorf("%+v, %v", got, err)
	}
}
