// Package cgroup moves a process out of the cgroup that it was born into.
//
// The daemon is born into the kubelet's cgroup, and service managers end a
// service by killing everything that is in its cgroup: with systemd that is
// KillMode=control-group, the default, which kubeadm's kubelet.service leaves
// as it is (systemd.kill(5)). So a restart of the kubelet would take all
// volumes down, unless somebody moves the daemon:
//
//  1. Where systemd runs, it is asked for a scope: a unit for processes that
//     systemd did not start. Scopes are visible to systemctl, and end in order
//     when the machine shuts down.
//  2. Where no systemd runs, or it refuses, the process is written into a
//     cgroup of the driver's own, right below the root of each hierarchy.
//
// # Hierarchies
//
// A process is in one cgroup of each hierarchy. With cgroup v2 there is one
// hierarchy, with v1 one for each controller or group of controllers, and a
// machine may have v1 and v2 at the same time. Who kills by cgroup looks at one
// of them, and it is not known from outside which. So the process leaves its
// cgroup in all of them, except where it is in the root: there is nothing to
// leave, since a root cgroup is never a service's.
//
// # Traps
//
// Move a process before it starts another one. Children are born into the
// cgroup of their parent, and what was born before the move stays behind.
//
// Paths are as this process sees them. In a cgroup name space of its own, as in
// a container, "/" is the container's cgroup, and who ends the container ends
// the process.
//
// A move leaves the limits of the old cgroup behind together with it. Memory
// that was charged to the old cgroup stays charged to it (cgroups(7)).
//
// Nothing here watches the process. One that somebody moves later stays there.
package cgroup
