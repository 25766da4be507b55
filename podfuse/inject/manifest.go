// Package inject adds FUSE programs to manifests, as the chart's admission policy adds them to
// pods: for API servers without such policies, and for those who want to see what is added. The
// policy (deploy/chart/pod-info-fuse/templates/programs.yaml) is the truth. deploy/check compares
// what both make of a pod. The policy refuses more, such as a value that a program takes for an
// option. Where there is no policy, the pod's author may write any pod.
//
// A document to which something is added is written anew, as kubectl prints objects: its keys are
// sorted, and its comments are gone. All others stay as they are.
package inject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// Manifest returns a manifest with what its pods ask for. Its error has a line for each program or
// option that there is not.
func (l List) Manifest(manifest string) (string, error) {
	manifest = strings.TrimPrefix(manifest, "\ufeff") // it begins files of some Windows programs
	if !utf8.ValidString(manifest) {                  // kubectl reads UTF-16, too, in which the driver's name would be overlooked
		return "", errors.New("the manifest is not UTF-8")
	}
	var out strings.Builder
	var problems []error
	line := 1
	for _, document := range documents(manifest) {
		injected, err := l.document(document, line)
		if err != nil {
			problems = append(problems, err)
		}
		out.WriteString(injected)
		line += strings.Count(document, "\n")
	}
	if err := errors.Join(problems...); err != nil {
		return "", err
	}
	return out.String(), nil
}

// documents splits a stream before each line that begins with the word --- or ..., which are
// nothing else anywhere in YAML.
func documents(stream string) (all []string) {
	begin, at := 0, 0
	for line := range strings.Lines(stream) {
		if word := line[:strings.IndexAny(line+"\n", " \t\r\n")]; word == "---" || word == "..." {
			all = append(all, stream[begin:at])
			begin = at
		}
		at += len(line)
	}
	return append(all, stream[begin:])
}

// document adds to one document, which begins in a line of the stream.
func (l List) document(document string, line int) (string, error) {
	// What does not name the driver need not be read, such as the templates of a large chart.
	if _, name, _ := strings.Cut(l.driver, "/"); !strings.Contains(document, name) {
		return document, nil
	}
	mark, content := "", document
	if strings.HasPrefix(document, "---") || strings.HasPrefix(document, "...") {
		mark, content = "---\n", "---"+document[3:]
	}
	object, err := decode(strings.Repeat("\n", line-1) + content) // so that errors have the stream's lines
	if err != nil {
		return "", err
	}
	var refusals []error
	added := false
	workloads(object, func(workload, pod any) {
		if !l.asks(pod) {
			return
		}
		added = l.add(pod) || added
		for _, message := range l.refusals(pod) { // of the pod with its programs, as the policies do
			name := strings.TrimSpace(text(in(workload, "kind")) + " " + text(in(workload, "metadata", "name")))
			refusals = append(refusals, fmt.Errorf("%s: %s", name, message))
		}
	})
	if len(refusals) > 0 || !added {
		return document, errors.Join(refusals...)
	}
	injected, err := yaml.Marshal(object)
	return mark + string(injected), err
}

// decode reads a document as kubectl does, but for keys that occur twice, which are an error.
func decode(text string) (object any, err error) {
	content, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber() // a float would lose digits
	return object, decoder.Decode(&object)
}

// workloads visits the workloads of an object, and their pods.
func workloads(object any, visit func(workload, pod any)) {
	switch text(in(object, "kind")) {
	case "List":
		for _, item := range items(in(object, "items")) {
			workloads(item, visit)
		}
	case "Pod":
		visit(object, object)
	case "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "Job":
		visit(object, in(object, "spec", "template"))
	case "CronJob":
		visit(object, in(object, "spec", "jobTemplate", "spec", "template"))
	}
}
