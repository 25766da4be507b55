package monitoring

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// moment is what a node tells, beside what a healthy one does, and when its alerts are looked at.
type moment struct {
	series   string // in the notation of Prometheus' tests; a series replaces the healthy one
	at       time.Duration
	severity string
	with     []string // other alerts that are right as well
}

// cases are those of each alert. Those of FuseDriver... are of both drivers.
var cases = []struct {
	alert          string
	fires, doesNot map[string]moment
}{
	{"FuseDriverMountDead",
		map[string]moment{
			"both processes are gone": {series: `fuse_driver_mount{state="ok"} 0x600
				fuse_driver_mount{state="dead"} 1x600`, at: 3 * minute, severity: "critical"},
			"and all volumes with them": {series: `fuse_driver_mount{state="ok"} 0x600
				fuse_driver_mount{state="dead"} 1x600
				fuse_driver_volumes{state="dead"} 7x600`, at: 30 * minute, severity: "critical"}},
		map[string]moment{
			"it is healed within two minutes": {series: `fuse_driver_mount{state="ok"} 0 0 1x600
				fuse_driver_mount{state="dead"} 1 1 0x600`, at: 3 * minute},
			"no volume was ever mounted": {series: `fuse_driver_mount{state="ok"} 0x600
				fuse_driver_mount{state="absent"} 1x600`, at: 300 * minute}}},
	{"FuseDriverNotServing",
		map[string]moment{
			"it does not answer": {series: `fuse_driver_process_info{role="active",version="1"} 1 1 1 _x600
				fuse_driver_process_info{role="standby",version="1"} 1 1 1 _x600
				fuse_driver_confinement{role="active",measure="landlock"} 1 1 1 _x600
				fuse_driver_confinement{role="active",measure="seccomp"} 1 1 1 _x600`, at: 20 * minute, severity: "critical"},
			"a stranger answers": {series: `fuse_driver_confinement{role="active",measure="landlock"} 1 1 1 _x600
				fuse_driver_confinement{role="active",measure="seccomp"} 1 1 1 _x600`, at: 20 * minute, severity: "critical"}},
		map[string]moment{
			"it did not answer once": {series: `fuse_driver_process_info{role="active",version="1"} 1 1 1 stale stale 1x600
				fuse_driver_process_info{role="standby",version="1"} 1 1 1 stale stale 1x600
				fuse_driver_confinement{role="active",measure="landlock"} 1 1 1 stale stale 1x600
				fuse_driver_confinement{role="active",measure="seccomp"} 1 1 1 stale stale 1x600`, at: 9 * minute},
			"there is no mount": {series: `fuse_driver_process_info{role="active",version="1"} _x600
				fuse_driver_process_info{role="standby",version="1"} _x600
				fuse_driver_confinement{role="active",measure="landlock"} _x600
				fuse_driver_confinement{role="active",measure="seccomp"} _x600
				fuse_driver_mount{state="ok"} 0x600
				fuse_driver_mount{state="absent"} 1x600`, at: 20 * minute}}},
	{"FuseDriverCannotMount",
		map[string]moment{"no mount succeeds": {series: `fuse_driver_mount{state="ok"} 0x600
			fuse_driver_mount{state="absent"} 1x600
			fuse_driver_callouts_total{callout="mount",outcome="failure"} 1+1x600`, at: 20 * minute, severity: "critical"}},
		map[string]moment{"one failed, and the kubelet has given up": {series: `fuse_driver_mount{state="ok"} 0x600
			fuse_driver_mount{state="absent"} 1x600
			fuse_driver_callouts_total{callout="mount",outcome="failure"} 1 2x600`, at: 60 * minute}}},
	{"FuseDriverVolumesDead",
		map[string]moment{
			"healing does not reach two": {series: `fuse_driver_volumes{state="dead"} 2x600`, at: 16 * minute, severity: "critical"},
			"no daemon could be started": {series: `fuse_driver_volumes{state="dead"} 7x600
				fuse_driver_mount{state="ok"} 0x600
				fuse_driver_mount{state="dead"} 1 0x600
				fuse_driver_mount{state="absent"} 0 1x600`, at: 18 * minute, severity: "critical"}},
		map[string]moment{"they are healed": {series: `fuse_driver_volumes{state="dead"} 2x14 0x600`, at: 16 * minute}}},
	{"FuseDriverRecordsWithoutMounts",
		map[string]moment{"somebody has unmounted one": {series: `fuse_driver_volumes{state="not_mounted"} 1x600`, at: 16 * minute, severity: "critical"}},
		map[string]moment{"a pod is on its way": {series: `fuse_driver_volumes{state="not_mounted"} 0 1 0 1 1 0 1x3 0x600`, at: 16 * minute}}},
	{"FuseDriverMountsWithoutRecords",
		map[string]moment{"the run directory was removed": {series: `fuse_driver_volumes{state="unrecorded"} 1x600`, at: 16 * minute, severity: "critical"}},
		map[string]moment{"the next call-out has made records": {series: `fuse_driver_volumes{state="unrecorded"} 1x5 0x600`, at: 16 * minute}}},
	{"FuseDriverVolumesUnknown",
		map[string]moment{
			"a record is broken":    {series: `fuse_driver_volumes{state="unknown"} 1x600`, at: 31 * minute, severity: "warning"},
			"something is over one": {series: `fuse_driver_volumes{state="foreign"} 1x600`, at: 31 * minute, severity: "warning"}},
		map[string]moment{"for a moment": {series: `fuse_driver_volumes{state="unknown"} 1x20 0x600`, at: 31 * minute}}},
	{"FuseDriverNoStandby",
		map[string]moment{"none starts": {series: `fuse_driver_process_info{role="standby",version="1"} _x600`, at: 16 * minute, severity: "warning"}},
		map[string]moment{"they replace each other": {series: `fuse_driver_process_info{role="standby",version="1"} 1 stale 1 stale 1x600`, at: 16 * minute}}},
	{"FuseDriverDaemonLost",
		map[string]moment{
			"it is started a second time":    {series: `fuse_driver_starts_total 1x5 2x600`, at: 20 * minute, severity: "warning"},
			"it is lost soon after a reboot": {series: `fuse_driver_starts_total 3x5 stale stale 1x5 2x600`, at: 20 * minute, severity: "warning"}},
		map[string]moment{
			"that was hours ago":                       {series: `fuse_driver_starts_total 1x5 2x600`, at: 90 * minute},
			"it is stopped and begins":                 {series: `fuse_driver_starts_total 1x5 stale stale 1x600`, at: 20 * minute},
			"the node reboots, and it was lost before": {series: `fuse_driver_starts_total 3x5 stale stale 1x600`, at: 20 * minute}}},
	{"FuseDriverTakeOversTooOften",
		map[string]moment{
			"it crashes every ten minutes": {series: `fuse_driver_takeovers_total{cause="crash"} 0x5 1x10 2x10 3x10 4x10 5x600`, at: 55 * minute, severity: "warning"},
			"it hangs and crashes": {series: `fuse_driver_takeovers_total{cause="crash"} 0x5 2x600
				fuse_driver_takeovers_total{cause="hang"} 0x5 3x600`, at: 20 * minute, severity: "warning"}},
		map[string]moment{
			"it crashes twice":           {series: `fuse_driver_takeovers_total{cause="crash"} 0x5 1x10 2x600`, at: 55 * minute},
			"it is upgraded a few times": {series: `fuse_driver_takeovers_total{cause="upgrade"} 0x5 5x10 9x600`, at: 55 * minute}}},
	{"FuseDriverRequestsRefused",
		map[string]moment{"a file's reads end processes": {series: `fuse_driver_requests_refused_total 0x5 3x600`, at: 20 * minute, severity: "warning"}},
		map[string]moment{
			"none is refused":         {series: `fuse_driver_requests_refused_total 0x600`, at: 20 * minute},
			"that was hours ago":      {series: `fuse_driver_requests_refused_total 0x5 3x600`, at: 120 * minute},
			"the node has begun anew": {series: `fuse_driver_requests_refused_total 3x5 stale stale 0x600`, at: 20 * minute}}},
	{"FuseDriverSlowAnswers",
		map[string]moment{"a disk hangs": {series: `fuse_driver_answer_duration_seconds_bucket{le="1"} 100+10x600
			fuse_driver_answer_duration_seconds_bucket{le="+Inf"} 100+12x600
			fuse_driver_answer_duration_seconds_count 100+12x600`, at: 30 * minute, severity: "warning"},
			"a disk hangs, as newer versions of Prometheus write it": {series: `fuse_driver_answer_duration_seconds_bucket{le="1"} stale
			fuse_driver_answer_duration_seconds_bucket{le="1.0"} 100+10x600
			fuse_driver_answer_duration_seconds_bucket{le="+Inf"} 100+12x600
			fuse_driver_answer_duration_seconds_count 100+12x600`, at: 30 * minute, severity: "warning"}},
		map[string]moment{
			"there are many, and none is slow": {series: `fuse_driver_answer_duration_seconds_bucket{le="1"} 100+100000x600
				fuse_driver_answer_duration_seconds_bucket{le="+Inf"} 100+100000x600
				fuse_driver_answer_duration_seconds_count 100+100000x600`, at: 30 * minute},
			"one is, once": {series: `fuse_driver_answer_duration_seconds_bucket{le="1"} 100+10x600
				fuse_driver_answer_duration_seconds_bucket{le="+Inf"} 100 111+10x600
				fuse_driver_answer_duration_seconds_count 100 111+10x600`, at: 10 * minute}}},
	{"FuseDriverReadsFail",
		map[string]moment{"there are errors": {series: `fuse_driver_request_errors_total{error="EIO"} 0x3 1+1x600`, at: 20 * minute, severity: "warning"}},
		map[string]moment{"names are not there": {series: `fuse_driver_request_errors_total{error="ENOENT"} 0+90x600
			fuse_driver_request_errors_total{error="EROFS"} 0+90x600`, at: 20 * minute}}},
	{"FuseDriverCallOutsFail",
		map[string]moment{
			"unmount fails": {series: `fuse_driver_callouts_total{callout="unmount",outcome="failure"} 0+1x600`, at: 30 * minute, severity: "warning"},
			"init fails":    {series: `fuse_driver_callouts_total{callout="init",outcome="failure"} 0+1x600`, at: 30 * minute, severity: "warning"}},
		map[string]moment{"mount fails, which may be a user's": {series: `fuse_driver_callouts_total{callout="mount",outcome="failure"} 0+1x600`, at: 30 * minute}}},
	{"FuseDriverUpgradeFailed",
		map[string]moment{"it failed": {series: `fuse_driver_upgrade_failed 1x600`, at: 16 * minute, severity: "warning"}},
		map[string]moment{"the second attempt succeeds": {series: `fuse_driver_upgrade_failed 1x10 0x600`, at: 16 * minute}}},
	{"FuseDriverUnconfined",
		map[string]moment{"without the filter": {series: `fuse_driver_confinement{role="active",measure="seccomp"} 0x600`, at: 16 * minute, severity: "warning"}},
		map[string]moment{"a kernel without Landlock": {series: `fuse_driver_confinement{role="active",measure="landlock"} 0x600`, at: 16 * minute}}},
	{"FuseDriverStatusUnknown",
		map[string]moment{"it cannot be found out": {series: `fuse_driver_status_error 1x600`, at: 16 * minute, severity: "warning"}},
		map[string]moment{"for a moment": {series: `fuse_driver_status_error 1x3 0x600`, at: 16 * minute}}},
	{"FuseDriverInstallerDown",
		map[string]moment{
			"it does not answer": {series: `up 1x5 0x600
				fuse_driver_installer_info{version="1",name="example.com/pod-info-fuse"} 1x5 stale`, at: 25 * minute, severity: "warning"},
			"it has not for hours": {series: `up 1x5 0x600
				fuse_driver_installer_info{version="1",name="example.com/pod-info-fuse"} 1x5 stale`, at: 300 * minute, severity: "warning"}},
		map[string]moment{
			"it is replaced, and has another address": {series: `up 1x5 stale
				fuse_driver_installer_info{version="1",name="example.com/pod-info-fuse"} 1x5 stale`, at: 25 * minute},
			"somebody else's target": {series: `up{job="other"} 0x600`, at: 25 * minute}}},

	{"PodFuseMounterDown",
		map[string]moment{"it does not answer": {series: `fuse_driver_mounter_up 0x600`, at: 6 * minute, severity: "critical"}},
		map[string]moment{"no volume was ever mounted": {series: `fuse_driver_mounter_up 0x600
			fuse_driver_mount{state="ok"} 0x600
			fuse_driver_mount{state="absent"} 1x600`, at: 30 * minute}}},
	{"PodFuseMounterTrouble",
		map[string]moment{"pods cannot ask": {series: `fuse_driver_mounter_trouble 1x600`, at: 11 * minute, severity: "critical"}},
		map[string]moment{"for a moment": {series: `fuse_driver_mounter_trouble 1x5 0x600`, at: 11 * minute}}},
	{"PodFuseNoSpare",
		map[string]moment{
			"no spare": {series: `fuse_driver_mounter_spare 0x600`, at: 16 * minute, severity: "warning"},
			"no link":  {series: `fuse_driver_mounter_linked 0x600`, at: 16 * minute, severity: "warning"}},
		map[string]moment{"one is started": {series: `fuse_driver_mounter_spare 1 0 1x600`, at: 16 * minute}}},
	{"PodFuseProgramsGone",
		map[string]moment{"one is lost": {series: `fuse_driver_programs{state="gone"} 1x600`, at: 16 * minute, severity: "warning"}},
		map[string]moment{"others are dead, and may come back": {series: `fuse_driver_programs{state="program_dead"} 3x600`, at: 16 * minute}}},
	{"PodFuseOutage",
		map[string]moment{"it lasts": {series: `fuse_driver_outage_start_timestamp_seconds 60x600`, at: 15 * minute, severity: "warning"}},
		map[string]moment{"it is short": {series: `fuse_driver_outage_start_timestamp_seconds 600x5 stale`, at: 15 * minute}}},
}

// healthy is what a node tells that is well, by the first driver's label, and for the second one
// with what it tells alone.
func healthy(driver string) string {
	all := `
		up 1x600
		fuse_driver_installer_info{version="1",name="example.com/pod-info-fuse"} 1x600
		fuse_driver_repairs_total 0x600
		fuse_driver_mount{state="ok"} 1x600
		fuse_driver_mount{state="dead"} 0x600
		fuse_driver_mount{state="absent"} 0x600
		fuse_driver_volumes{state="ok"} 7x600
		fuse_driver_volumes{state="dead"} 0x600
		fuse_driver_volumes{state="not_mounted"} 0x600
		fuse_driver_volumes{state="foreign"} 0x600
		fuse_driver_volumes{state="unknown"} 0x600
		fuse_driver_volumes{state="unrecorded"} 0x600
		fuse_driver_volumes{state="lingering"} 1x600
		fuse_driver_process_info{role="active",version="1"} 1x600
		fuse_driver_process_info{role="standby",version="1"} 1x600
		fuse_driver_confinement{role="active",measure="landlock"} 1x600
		fuse_driver_confinement{role="active",measure="seccomp"} 1x600
		fuse_driver_starts_total 1x600
		fuse_driver_takeovers_total{cause="crash"} 0x600
		fuse_driver_takeovers_total{cause="hang"} 0x600
		fuse_driver_takeovers_total{cause="upgrade"} 0x600
		fuse_driver_requests_total{kind="read"} 0+1000x600
		fuse_driver_request_errors_total{error="EIO"} 0x600
		fuse_driver_request_errors_total{error="ENOENT"} 0+1x600
		fuse_driver_answer_duration_seconds_bucket{le="1"} 0+3000x600
		fuse_driver_answer_duration_seconds_bucket{le="+Inf"} 0+3000x600
		fuse_driver_answer_duration_seconds_count 0+3000x600
		fuse_driver_upgrade_failed 0x600
		fuse_driver_status_error 0x600
		fuse_driver_callouts_total{callout="init",outcome="failure"} 0x600
		fuse_driver_callouts_total{callout="mount",outcome="success"} 0+1x600
		fuse_driver_callouts_total{callout="mount",outcome="failure"} 0x600
		fuse_driver_callouts_total{callout="unmount",outcome="failure"} 0x600`
	if driver == second {
		all += `
		fuse_driver_mounter_up 1x600
		fuse_driver_mounter_trouble 0x600
		fuse_driver_mounter_spare 1x600
		fuse_driver_mounter_linked 1x600
		fuse_driver_programs{state="served"} 3x600
		fuse_driver_programs{state="program_dead"} 0x600
		fuse_driver_programs{state="gone"} 0x600`
	}
	return all
}

var seriesName = regexp.MustCompile(`^([a-z_]+)(\{[^}]*\})?\s+(.*)$`)

// merge puts series into the place of those with the same name and labels, and gives all the labels
// of a target that have none.
func merge(series, instead string) string {
	var order []string
	values := map[string]string{}
	for _, text := range []string{series, instead} {
		for line := range strings.Lines(text) {
			part := seriesName.FindStringSubmatch(strings.TrimSpace(line))
			if part == nil {
				continue
			}
			own := strings.Trim(part[2], "{}")
			if !strings.Contains(own, "job=") {
				own = strings.TrimPrefix(own+`,job="pod-info-fuse/pod-info-fuse"`, ",")
			}
			if strings.HasPrefix(part[1], "fuse_driver_") {
				own += fmt.Sprintf(",driver=%q", first)
			}
			key := part[1] + "{" + own + `,instance="10.0.0.7:9808"}`
			if values[key] == "" {
				order = append(order, key)
			}
			values[key] = part[3]
		}
	}
	var all strings.Builder
	for _, key := range order {
		all.WriteString(key + " " + values[key] + "\n")
	}
	return all.String()
}
