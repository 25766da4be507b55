package volume

import "slices"

// The facts that a volume can have beside the files that every volume has. They are
// names of files, and of what a pod and a configuration ask for.
const (
	FactPodName        = "pod.name"
	FactPodNamespace   = "pod.namespace"
	FactServiceAccount = "pod.serviceaccount"
	FactVolumeName     = "volume.name"

	// Of the node; only a configuration can ask for them.
	FactKernel = "node.kernel"
	FactBootID = "node.bootid"
	FactArch   = "node.arch"
)

// PodFacts are the facts that a pod can ask for, NodeFacts the others.
var (
	PodFacts  = [...]string{FactPodName, FactPodNamespace, FactServiceAccount, FactVolumeName}
	NodeFacts = [...]string{FactKernel, FactBootID, FactArch}
)

// AllFacts are the names of all facts.
func AllFacts() []string { return slices.Concat(PodFacts[:], NodeFacts[:]) }

// IsFact tells whether there is a fact of that name.
func IsFact(name string) bool { return slices.Contains(AllFacts(), name) }
