// Rclone is rclone with what the suite uses of it: a directory of this machine, as a FUSE file
// system and as an S3 server. The whole of it has the clients of eighty services.
package main

import (
	_ "github.com/rclone/rclone/backend/local"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/mount"
	_ "github.com/rclone/rclone/cmd/serve/s3"
	_ "github.com/rclone/rclone/cmd/serve/sftp"
)

func main() { cmd.Main() }
