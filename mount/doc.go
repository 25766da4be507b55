// Package mount makes, inspects and removes mounts.
//
// A mount point may be dead (its FUSE server is gone: ENOTCONN) or hung (its
// server does not answer). Nothing here asks the server of a mount: inspection
// is statx(2) with AT_STATX_DONT_SYNC, or reading mountinfo. Callers must keep
// to that and never stat, open or list a path that may be a mount point. An
// O_PATH descriptor is safe.
package mount
