package selinux

import "fmt"

// Situation is all that decides whether containers may read the volumes.
type Situation struct {
	Program string // the driver's, for commands to run
	Mode    Mode
	Mounted bool   // the driver's file system is mounted
	Label   string // that it was mounted with, "" none
	Wanted  string // the label of the next mount, "" none
	Boolean State  // of UseFUSE
}

// Advice tells an administrator what to do.
func (s Situation) Advice() string {
	switch {
	case s.Mode == Absent:
		return "SELinux is not enabled on this node. There is nothing to do."
	case s.Mode == Permissive:
		return "Nothing is denied while SELinux is permissive. When it is enforcing:\n" + s.enforced()
	default:
		return s.enforced()
	}
}

func (s Situation) enforced() string {
	switch {
	// The second is the first's name until 2017. All policies give it to what containers own.
	case typeOf(s.Label) == "container_file_t", typeOf(s.Label) == "svirt_sandbox_file_t":
		return "Containers may read the volumes, by their label. There is nothing to do."
	case s.Label != "":
		return fmt.Sprintf(`It is up to the policy whether containers may read the type %s. If they are
denied, remove selinuxContext from config.json, and mount anew.`, typeOf(s.Label))
	case !s.Mounted && s.Wanted != "":
		return fmt.Sprintf(`Nothing is mounted yet. Volumes will have the label
%s, if the policy knows it.`, s.Wanted)
	case s.Wanted != "":
		return fmt.Sprintf(`The volumes have no label of their own. Either the policy refused
%s, which the log tells; or they were mounted before the
driver was configured to use it. Then run "%s stop", once no pod uses a
volume: the next mount will have the label.
`, s.Wanted, s.Program) + s.unlabelled()
	default:
		return `The volumes have no label of their own: config.json says "selinuxContext": "none".
` + s.unlabelled()
	}
}

// unlabelled is about a mount that has the policy's label for any FUSE file
// system.
func (s Situation) unlabelled() string {
	switch s.Boolean {
	case On:
		return fmt.Sprintf(`Containers may read the volumes, and all other FUSE file systems of the node:
%s is on. To keep it on after the next boot:
  setsebool -P %[1]s 1`, UseFUSE)
	case Off:
		return fmt.Sprintf(`With container-selinux older than 2.75 (October 2018), containers are denied until
  setsebool -P %s 1
With later versions, containers may read FUSE file systems without that.`, UseFUSE)
	case NoSuch:
		return fmt.Sprintf(`The policy has no boolean %s. With container-selinux 2.75
(October 2018) or later, containers may read FUSE file systems. With another
policy, look for denials in the audit log:
  ausearch -m avc -ts recent`, UseFUSE)
	default:
		return fmt.Sprintf("Whether %s is on could not be read.", UseFUSE)
	}
}
