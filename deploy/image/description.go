package main

// description is what tools show of an image. It stands in the labels of each
// configuration and in the annotations of each manifest, because some tools read
// the ones and some the others.
func description(version string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "pod-info-fuse",
		"org.opencontainers.image.description": "Drivers of volumes that tell pods about themselves and their node, and that FUSE programs in pods serve",
		"org.opencontainers.image.version":     version,
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}
}
