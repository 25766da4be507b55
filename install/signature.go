package install

import (
	"os"
	"syscall"
)

// signature changes with the content of a driver's directory, without anybody
// reading that.
type signature struct {
	mode           uint32 // of the directory
	binary, config fileSignature
	wanted         string // the configuration to install
}

type fileSignature struct {
	device, inode uint64
	mode          uint32
	size          int64
	changed       syscall.Timespec
}

func signatureOf(t Target, config []byte) signature {
	return signature{fileSignatureOf(t.Dir()).mode, fileSignatureOf(t.Binary()), fileSignatureOf(t.config()), string(config)}
}

// complete tells whether there is a driver at all.
func (s signature) complete() bool { return s.binary != fileSignature{} }

// fileSignatureOf is zero for a file that is not there.
func fileSignatureOf(path string) fileSignature {
	info, err := os.Lstat(path)
	if err != nil {
		return fileSignature{}
	}
	stat := info.Sys().(*syscall.Stat_t)
	return fileSignature{stat.Dev, stat.Ino, stat.Mode, stat.Size, stat.Ctim}
}
