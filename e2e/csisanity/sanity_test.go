package csisanity

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"google.golang.org/grpc"
)

const (
	podUID = "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1"
	// bin has the programs that are tested, beside this module's directory.
	bin = "../../bin"
	// passing is how many specs of the suite are about a plugin that has neither a controller
	// nor capabilities: three of Identity, and eight of Node.
	passing = 11
)

func TestThePluginPassesTheSuiteOfCSI(t *testing.T) {
	dir, err := os.MkdirTemp("", "sanity-") // short: it is in the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	stop := start(t, dir)
	serveController(t, filepath.Join(dir, "controller.sock"))

	config := sanity.NewTestConfig()
	config.Address = "unix://" + filepath.Join(dir, "csi.sock")
	config.ControllerAddress = "unix://" + filepath.Join(dir, "controller.sock")
	config.StagingPath = filepath.Join(dir, "staging")
	// The directory that a kubelet makes. The suite wants volumes on its subdirectory target.
	config.TargetPath = filepath.Join(dir, "pods", podUID, "volumes/kubernetes.io~csi/info")
	config.CreateTargetDir = func(path string) (string, error) { return path, os.MkdirAll(path, 0o750) }
	config.RemoveTargetPath = func(path string) error {
		err := os.Remove(path)
		if err != nil { // which the suite passes over
			t.Error(err)
		}
		return err
	}
	config.CheckPath = func(path string) (sanity.PathKind, error) {
		info, err := os.Stat(path)
		switch {
		case os.IsNotExist(err):
			return sanity.PathIsNotFound, nil
		case err != nil:
			return "", err
		case info.IsDir():
			return sanity.PathIsDir, nil
		}
		return sanity.PathIsOther, nil
	}
	suite, reporter := ginkgo.GinkgoConfiguration()
	suite.SkipStrings = []string{`\[Controller Server\]`}
	context := sanity.GinkgoTest(&config)
	defer context.Finalize()
	ginkgo.ReportAfterSuite("what ran", func(report ginkgo.Report) { count(t, report) })
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.RunSpecs(t, "CSI", suite, reporter)
	stop()
}

// count checks which specs ran: one that the suite has taken to skip would go unnoticed.
func count(t *testing.T, report ginkgo.Report) {
	passed := 0
	for _, spec := range report.SpecReports {
		switch name := spec.FullText(); {
		case spec.LeafNodeType != types.NodeTypeIt:
		case spec.State == types.SpecStatePassed:
			passed++
			t.Logf("passed: %s", name)
		case spec.State == types.SpecStateSkipped && !strings.Contains(name, "[Controller Server]"):
			// Said by the suite, of a capability.
			if spec.Failure.Message == "" {
				t.Errorf("skipped without a reason: %s", name)
			}
			t.Logf("skipped: %s: %s", name, spec.Failure.Message)
		}
	}
	if passed != passing {
		t.Errorf("%d specs have passed, want %d", passed, passing)
	}
}

// start starts the plugin, with a driver. stop ends both.
func start(t *testing.T, dir string) (stop func()) {
	t.Helper()
	driver, err := filepath.Abs(filepath.Join(bin, "pod-info-fuse"))
	if err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(dir, vendor+"~pod-info-fuse")
	installed := filepath.Join(place, "pod-info-fuse")
	content, err := os.ReadFile(driver)
	if err != nil {
		t.Fatalf("%v; run make csi-sanity", err)
	}
	if err := os.Mkdir(place, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(installed, content, 0o711); err != nil {
		t.Fatal(err)
	}
	plugin := exec.Command(filepath.Join(bin, "pod-info-fuse-csi"), "serve", "--driver", vendor+"/pod-info-fuse", "--node-id", "node-1",
		"--endpoint", "unix://"+filepath.Join(dir, "csi.sock"), "--registration-dir", "", "--kubelet-dir", dir, "--binary", installed)
	plugin.Stdout, plugin.Stderr = os.Stdout, os.Stderr
	if err := plugin.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if connection, err := net.Dial("unix", filepath.Join(dir, "csi.sock")); err == nil {
			connection.Close()
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	return func() {
		if err := plugin.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := plugin.Wait(); err != nil {
			t.Errorf("the plugin ended with %v", err)
		}
		// Without --force: no volume is left.
		if output, err := exec.Command(installed, "stop").CombinedOutput(); err != nil {
			t.Errorf("stop: %v: %s", err, output)
		}
	}
}

func serveController(t *testing.T, socket string) {
	t.Helper()
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, controller{})
	csi.RegisterControllerServer(server, controller{})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
}
