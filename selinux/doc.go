// Package selinux is what the driver has to do with SELinux: whether containers
// may read its volumes where a policy is enforced.
//
// A policy gives every FUSE file system the same type, fusefs_t. Containers may
// read that
//
//   - always, since container-selinux 2.75 (October 2018);
//   - before, where the administrator has turned on the boolean
//     virt_sandbox_use_fusefs, which opens all FUSE file systems of the node to
//     all containers.
//
// The driver needs neither: it mounts its file system with the option
// context=LABEL and a type that belongs to containers. There is nothing in it
// that is worth to be kept from one of them, so that the label has no categories.
//
// The option must not be given where SELinux is not enabled: mount(2) refuses it
// with EINVAL then.
package selinux
