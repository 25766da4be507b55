package inject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// List is what an administrator lists for pods: podFuse.programs of the chart's values.
type List struct {
	driver   string // of FlexVolume
	csi      string // its name in CSI
	programs map[string]*program
}

// program is one of the list. The fields of its JSON are those of the chart's values.schema.json.
type program struct {
	Image     string            `json:"image"`
	Command   []string          `json:"command"`
	Options   []string          `json:"options"`
	Env       map[string]string `json:"env"`
	Resources map[string]any    `json:"resources"`
	Secret    *struct {
		Name      string `json:"name"`
		MountPath string `json:"mountPath"`
		Mode      int    `json:"mode"`
	} `json:"secret"`
	Source *struct {
		MountPath string `json:"mountPath"`
		ReadOnly  bool   `json:"readOnly"`
	} `json:"source"`

	accepts, needs []string
	variables      []string // names in env, in the order of the container's
	mountPoint     bool     // the command has $(mountpoint)
}

// Read reads values of the chart. Those of a later file replace those of an earlier one, as Helm's
// do.
func Read(files ...[]byte) (List, error) {
	values := map[string]any{"podFuse": map[string]any{"driver": "example.com/pod-fuse"}}
	for _, text := range files {
		object, err := decode(string(text))
		more, isMap := object.(map[string]any)
		if err == nil && object != nil && !isMap {
			err = errors.New("they are no map")
		}
		if err != nil {
			return List{}, fmt.Errorf("values: %w", err)
		}
		merge(values, more)
	}
	list := List{driver: text(in(values, "podFuse", "driver")), programs: map[string]*program{}}
	vendor, name, _ := strings.Cut(list.driver, "/")
	if name == "" {
		return List{}, fmt.Errorf("podFuse.driver: %q is not VENDOR/NAME", list.driver)
	}
	list.csi = name + "." + vendor
	programs, isMap := in(values, "podFuse", "programs").(map[string]any)
	if !isMap && in(values, "podFuse", "programs") != nil {
		return List{}, errors.New("podFuse.programs is not a map of programs by their names")
	}
	for name, value := range programs {
		where := "podFuse.programs." + name
		content, err := json.Marshal(value)
		if err != nil {
			return List{}, fmt.Errorf("%s: %w", where, err)
		}
		p := &program{}
		decoder := json.NewDecoder(bytes.NewReader(content))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(p); err != nil {
			return List{}, fmt.Errorf("%s: %w", where, err)
		}
		if err := p.prepare(where); err != nil {
			return List{}, err
		}
		list.programs[name] = p
	}
	return list, nil
}

// merge puts values over others, as Helm does. null removes one.
func merge(values, more map[string]any) {
	for key, value := range more {
		had, _ := values[key].(map[string]any)
		replacing, isMap := value.(map[string]any)
		switch {
		case had != nil && isMap:
			merge(had, replacing)
		case value == nil:
			delete(values, key)
		default:
			values[key] = value
		}
	}
}

// prepare finds out what the program takes. What a list may have, the chart checks
// (pod-info-fuse.program in its _programs.tpl).
func (p *program) prepare(where string) error {
	if p.Image == "" || len(p.Command) == 0 {
		return fmt.Errorf("%s: image and command are required", where)
	}
	for _, option := range p.Options {
		if _, given := p.Env[option]; !given {
			p.needs = append(p.needs, option)
		}
	}
	p.accepts = append(slices.Clone(p.Options), "wait", "default_permissions")
	if p.Secret != nil {
		p.accepts = append(p.accepts, "secret")
		if p.Secret.Name == "" {
			p.needs = append(p.needs, "secret")
		}
		if p.Secret.Mode == 0 {
			p.Secret.Mode = 0o440
		}
	}
	if p.Source != nil {
		p.accepts = append(p.accepts, "source")
		p.needs = append(p.needs, "source")
	}
	p.mountPoint = strings.Contains(strings.Join(p.Command, " "), "$(mountpoint)")
	for _, first := range []bool{true, false} { // options' values first: a variable has those before it
		for _, name := range slices.Sorted(maps.Keys(p.Env)) {
			if slices.Contains(p.Options, name) == first {
				p.variables = append(p.variables, name)
			}
		}
	}
	return nil
}

// names are those of all programs, for a message.
func (l List) names() string {
	if len(l.programs) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(l.programs)), ", ")
}
