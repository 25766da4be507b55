// Package facts reads the facts that the operator of a node tells its pods: each
// file of a directory is one, and pods read it as node.NAME in their volumes.
//
// The directory is root's, but people and programs of all kinds write to it, so it
// may have anything in it. What cannot be a fact is left out, with a reason: see
// [Dir.Scan].
//
// A fact is read as a whole, and each version of it has an identity. Package fs
// makes that the inode of the file, so that who reads a version in small pieces
// gets all pieces of that one, although another has replaced it meanwhile.
//
// Nothing is remembered between two looks: facts come and go, and so may the
// directory.
package facts
