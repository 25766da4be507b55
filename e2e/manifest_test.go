//go:build e2e

package e2e

// image is the name of the one image: every container's, and the sandboxes' too.
// It has the driver, whose watch reads again and again.
const image = "e2e.example.com/busybox:e2e"

// A manifest is what the tests write of a static pod's.
type manifest struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Metadata   manifestMetadata `json:"metadata"`
	Spec       manifestSpec     `json:"spec"`
}

type manifestMetadata struct {
	Name string `json:"name"`
	// UID is empty for the one that the kubelet makes for a static pod: 32
	// hexadecimal digits without dashes.
	UID string `json:"uid,omitempty"`
}

type manifestSpec struct {
	HostNetwork                   bool         `json:"hostNetwork"`
	ShareProcessNamespace         bool         `json:"shareProcessNamespace,omitempty"`
	TerminationGracePeriodSeconds int          `json:"terminationGracePeriodSeconds"`
	SecurityContext               *podSecurity `json:"securityContext,omitempty"`
	InitContainers                []*container `json:"initContainers,omitempty"`
	Containers                    []*container `json:"containers"`
	Volumes                       []*volume    `json:"volumes"`
}

type podSecurity struct {
	FSGroup int `json:"fsGroup"`
}

type container struct {
	Name            string             `json:"name"`
	Image           string             `json:"image"`
	ImagePullPolicy string             `json:"imagePullPolicy"`
	Command         []string           `json:"command"`
	RestartPolicy   string             `json:"restartPolicy,omitempty"` // Always, of an init container: a sidecar
	StartupProbe    *probe             `json:"startupProbe,omitempty"`
	Env             []envVar           `json:"env,omitempty"`
	SecurityContext *containerSecurity `json:"securityContext,omitempty"`
	VolumeMounts    []volumeMount      `json:"volumeMounts"`
}

type probe struct {
	Exec struct {
		Command []string `json:"command"`
	} `json:"exec"`
	PeriodSeconds    int `json:"periodSeconds"`
	TimeoutSeconds   int `json:"timeoutSeconds"`
	FailureThreshold int `json:"failureThreshold"`
}

type envVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type containerSecurity struct {
	RunAsUser                int             `json:"runAsUser,omitempty"`
	RunAsNonRoot             bool            `json:"runAsNonRoot,omitempty"`
	ReadOnlyRootFilesystem   bool            `json:"readOnlyRootFilesystem,omitempty"`
	AllowPrivilegeEscalation *bool           `json:"allowPrivilegeEscalation,omitempty"`
	Capabilities             *capabilities   `json:"capabilities,omitempty"`
	SeccompProfile           *seccompProfile `json:"seccompProfile,omitempty"`
}

type capabilities struct {
	Drop []string `json:"drop"`
}

type seccompProfile struct {
	Type string `json:"type"`
}

type volumeMount struct {
	Name        string `json:"name"`
	MountPath   string `json:"mountPath"`
	SubPath     string `json:"subPath,omitempty"`
	SubPathExpr string `json:"subPathExpr,omitempty"`
	ReadOnly    bool   `json:"readOnly,omitempty"`
}

type volume struct {
	Name       string      `json:"name"`
	FlexVolume *flexVolume `json:"flexVolume,omitempty"`
	EmptyDir   *struct{}   `json:"emptyDir,omitempty"`
}

type flexVolume struct {
	Driver   string            `json:"driver"`
	ReadOnly bool              `json:"readOnly,omitempty"`
	Options  map[string]string `json:"options,omitempty"`
}

// Where the containers have their volumes, pod-info and second.
const (
	infoDir   = "/mnt/pod-info"
	secondDir = "/mnt/second"
)

// newManifest is a pod of one container, main, with one volume, pod-info. Tests
// change it into the pod that they are about. Its name is its own, also when a
// test runs twice: the UID comes from it, and the kubelet takes a pod with the UID
// of one before for the same pod, restarted.
func newManifest(name string) *manifest {
	return &manifest{
		APIVersion: "v1",
		Kind:       "Pod",
		Metadata:   manifestMetadata{Name: testNode.newID(name)},
		Spec: manifestSpec{
			// There is no network for pods on this node.
			HostNetwork:                   true,
			TerminationGracePeriodSeconds: 5,
			Containers:                    []*container{newContainer("main")},
			Volumes:                       []*volume{newVolume("pod-info")},
		},
	}
}

// newContainer is a container that has the volume pod-info and stays until the
// kubelet ends it. Its first process has to ask for SIGTERM, or it gets none.
func newContainer(name string) *container {
	return &container{
		Name:            name,
		Image:           image,
		ImagePullPolicy: "Never",
		Command:         []string{"sh", "-c", "trap exit TERM; sleep 100000 & wait"},
		VolumeMounts:    []volumeMount{{Name: "pod-info", MountPath: infoDir}},
	}
}

func newVolume(name string) *volume {
	return &volume{Name: name, FlexVolume: &flexVolume{Driver: driverName}}
}

// main is the pod's one container.
func (m *manifest) main() *container { return m.Spec.Containers[0] }

// addSecondVolume gives a pod a second volume of the driver.
func addSecondVolume(m *manifest) {
	m.Spec.Volumes = append(m.Spec.Volumes, newVolume("second"))
	m.main().VolumeMounts = append(m.main().VolumeMounts, volumeMount{Name: "second", MountPath: secondDir})
}
