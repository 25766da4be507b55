package flex

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Name is the name of a driver, as pods write it: "vendor/driver". In the
// kubelet's plugin directory the slash becomes a tilde:
// vendor~driver/driver is the binary of vendor/driver.
type Name struct {
	vendor, driver string
}

// ParseName reads "vendor/driver". Both parts consist of letters, digits,
// dots, dashes and underscores and begin with a letter or a digit, so that they
// are safe as parts of a path.
func ParseName(text string) (Name, error) {
	name, ok := cut(text, "/")
	if !ok {
		return Name{}, fmt.Errorf("driver name %q is not of the form vendor/driver", text)
	}
	return name, nil
}

// NameOf tells the driver's name from the path that its binary was called by.
// It reports false when the binary is not in a directory vendor~driver.
func NameOf(executable string) (Name, bool) { return cut(filepath.Base(filepath.Dir(executable)), "~") }

func cut(text, separator string) (Name, bool) {
	vendor, driver, ok := strings.Cut(text, separator)
	if !ok || !plain(vendor) || !plain(driver) {
		return Name{}, false
	}
	return Name{vendor, driver}, true
}

// String is the name as pods write it: vendor/driver.
func (n Name) String() string { return n.vendor + "/" + n.driver }

// Dir is the name of the driver's directory: vendor~driver.
func (n Name) Dir() string { return n.vendor + "~" + n.driver }

// File is the name of the driver's binary in its directory.
func (n Name) File() string { return n.driver }

// CSI is the driver's name where it is a CSI driver as well, which has a DNS name: driver.vendor.
func (n Name) CSI() string { return n.driver + "." + n.vendor }

// CSISocket is the path of the socket of the driver's CSI plugin, in a directory of the plugin's
// own below the kubelet's root directory.
func (n Name) CSISocket(kubeletDir string) string {
	return filepath.Join(kubeletDir, "plugins", n.CSI(), "csi.sock")
}

// CSIRegistration is the path of the socket by which the plugin registers itself, in the directory
// where a kubelet looks for plugins (kubernetes v1.34, pkg/kubelet/config/defaults.go).
func (n Name) CSIRegistration(kubeletDir string) string {
	return filepath.Join(kubeletDir, "plugins_registry", n.CSI()+"-reg.sock")
}

func plain(part string) bool {
	for i, c := range []byte(part) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("._-", rune(c))) {
			return false
		}
	}
	return part != ""
}
