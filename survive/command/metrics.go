package command

import (
	"errors"
	"io/fs"
	"path/filepath"

	"example.com/pod-info-fuse/install"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/internal/counters"
	"example.com/pod-info-fuse/survive/internal/metrics"
)

// keeperMetrics is the page of install --watch.
func (p Program) keeperMetrics(k *install.Keeper, log func(format string, args ...any)) string {
	t := metrics.NewText(k.Node.Program)
	t.Family("repairs_total", "counter", "Installations because the driver was missing or altered.").Sample(float64(k.Repairs()))
	return t.String() + p.nodeMetrics(k.Node, log)
}

// nodeMetrics are the metrics of the driver on the node. log is told of those that cannot be read.
func (p Program) nodeMetrics(n survive.Node, log func(format string, args ...any)) string {
	t := metrics.NewText(n.Program)
	t.Family("installer_info", "gauge", "The version of the installer.").Sample(1, "version", n.Version, "name", n.Name.String())
	status, err := n.Status()
	t.Family("status_error", "gauge", "Whether the condition of the driver could not be found out.").Sample(truth(err != nil))
	if err != nil {
		return t.String()
	}
	writeVolumes(t, status)
	t.Family("upgrade_failed", "gauge", "Whether the last upgrade failed.").Sample(truth(status.FailedUpgrade != nil))
	if status.Takeovers != nil {
		writeDaemon(t, status, n.User())
	}
	var sections []Section
	if p.Status != nil {
		sections = p.Status(n)
	}
	writeSections(t, sections)
	writeUsage(t, status, sections)
	// Also of a daemon that does not answer.
	switch counts, err := counters.Read(filepath.Join(n.RunDir, counters.FileName)); {
	case err == nil:
		metrics.WriteCounts(t, counts)
	case !errors.Is(err, fs.ErrNotExist): // as for the following
		log("%v", err)
	}
	switch calls, err := metrics.ReadCalls(filepath.Join(n.RunDir, metrics.CallsFileName)); {
	case err == nil:
		calls.Write(t)
	case !errors.Is(err, fs.ErrNotExist): // before the first mount, there is none
		log("%v", err)
	}
	return t.String()
}

func writeVolumes(t *metrics.Text, status survive.Status) {
	t.Family("mount", "gauge", "The condition of the node's FUSE mount.")
	for _, state := range []survive.MountState{survive.MountOK, survive.MountDead, survive.MountAbsent} {
		t.Sample(truth(status.Mount == state), "state", string(state))
	}
	count := map[survive.VolumeState]int{}
	for _, v := range status.Volumes {
		count[v.State]++
	}
	t.Family("volumes", "gauge", "Volumes by their condition.")
	for _, state := range []survive.VolumeState{survive.VolumeOK, survive.VolumeDead, survive.VolumeNotMounted, survive.VolumeForeign, survive.VolumeUnknown, survive.VolumeUnrecorded, survive.VolumeLingering} {
		t.Sample(float64(count[state]), "state", metrics.SnakeCase(string(state)))
	}
}

// role names a process of the pair, which is nil if there is none.
type role struct {
	name string
	*survive.Process
}

func rolesOf(status survive.Status) []role {
	return []role{{"active", status.Active}, {"standby", status.Standby}}
}

func writeDaemon(t *metrics.Text, status survive.Status, user survive.User) {
	roles := rolesOf(status)
	t.Family("process_info", "gauge", "The processes of the daemon.")
	for _, r := range roles {
		if r.Process != nil {
			t.Sample(1, "role", r.name, "version", r.Version)
		}
	}
	t.Family("confinement", "gauge", "Whether a measure confines a process of the daemon.")
	for _, r := range roles {
		if r.Process != nil && r.Confinement != nil {
			for _, m := range measures(r.Confinement, user) {
				t.Sample(truth(m.inForce), "role", r.name, "measure", m.id)
			}
		}
	}
}

func writeSections(t *metrics.Text, sections []Section) {
	for _, s := range sections {
		for _, m := range s.Metrics {
			t.Family(m.Name, m.Kind, m.Help)
			for _, sample := range m.Samples {
				t.Sample(sample.Value, sample.Labels...)
			}
		}
	}
}

// writeUsage writes what all processes use. They are the host's, so nobody counts them as a
// container's.
func writeUsage(t *metrics.Text, status survive.Status, sections []Section) {
	var all []Usage
	for _, r := range rolesOf(status) {
		if r.Process != nil && r.Usage != nil {
			all = append(all, Usage{r.name, *r.Usage})
		}
	}
	for _, s := range sections {
		all = append(all, s.Usage...)
	}
	t.Family("process_resident_memory_bytes", "gauge", "Resident memory of a process.")
	for _, u := range all {
		t.Sample(float64(u.ResidentMemory), "role", u.Role)
	}
	t.Family("process_cpu_seconds_total", "counter", "CPU time, user and system, of the present process.")
	for _, u := range all {
		t.Sample(u.CPUTime.Seconds(), "role", u.Role)
	}
	t.Family("process_open_fds", "gauge", "Open file descriptors of a process.")
	for _, u := range all {
		if u.OpenFiles > 0 {
			t.Sample(float64(u.OpenFiles), "role", u.Role)
		}
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
