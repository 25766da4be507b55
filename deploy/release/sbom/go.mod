// Writes the release's bill of materials. A module of its own: what it needs is not the driver's.
module example.com/pod-info-fuse/deploy/release/sbom

go 1.26.0

require github.com/CycloneDX/cyclonedx-go v0.12.0
