// Package confine takes away from a process of the daemon everything that it does not need to
// serve. The daemon lives long, and every pod can talk to it through its files; an attacker
// who takes it over shall gain nothing.
//
// The call-out, which is root, has opened and mounted everything. It starts the
// process as a user of its own ([User]), and the process then gives up the
// rest ([Enter]):
//
//	user           one that no account has, no group, no capability in any set
//	no_new_privs   no program makes it more than it is (prctl(2))
//	not dumpable   nobody but root may trace it or look at its memory
//	limits         descriptors, memory; no core file (getrlimit(2)). Those of package
//	               cgroup bound threads and memory of both processes
//	Landlock       reads its run directory, executes its own binary, and nothing
//	               else: no file can be written (landlock(7))
//	seccomp        the system calls that serving needs; EPERM for others. No socket
//	               can be made but a link, no address named in any call, and no
//	               descriptor sent to anybody (seccomp(2))
//
// The processes that it starts inherit all of it, but for the dump, which execve(2) resets:
// they call [Repeat]. Landlock and seccomp must not be repeated, because they would pile up
// with each generation.
//
// Kernels before 5.13 have no Landlock. The process serves all the same, and says
// what it goes without: [Of] reads back what is in force.
package confine

//go:generate go run ./genfilter
