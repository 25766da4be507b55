package confine

import "syscall"

// UID and GID are those of the daemon, on every node. No account has them. A pod
// cannot ask for them either: Kubernetes takes users up to 2^31-1
// (k8s.io/apimachinery, IsValidUserID). It is not "nobody", who pods run as.
const (
	UID = 4_200_000_001
	GID = 4_200_000_001
)

// Credential is what the daemon is started with, by root: no supplementary group
// remains, and execve(2) leaves no capability to a user that is not root.
func Credential() *syscall.Credential {
	return &syscall.Credential{Uid: UID, Gid: GID}
}
