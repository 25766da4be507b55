#!/bin/sh
# Renders the chart for those who do not use Helm:
#
#	render.sh HELM DIR
#
# DIR gets the manifests, and the policies.
set -eu
helm=${1:?render.sh: no helm}
dir=${2:?render.sh: no directory}
chart=$(dirname "$0")/chart/pod-info-fuse

# render FILE TITLE FLAG... writes one of them, without the labels that say that Helm manages it.
render() {
	file=$dir/$1 title=$2
	shift 2
	manifest=$("$helm" template pod-info-fuse "$chart" --namespace pod-info-fuse "$@")
	{
		echo "# $title"
		echo '# Rendered from deploy/chart by make manifest: change the chart instead.'
		printf '%s\n' "$manifest" | sed -e '1{/^---$/d}' -e '/^# Source: /d' \
			-e '/^    helm.sh\/chart: /d' -e '/^    app.kubernetes.io\/managed-by: /d'
	} >"$file"
}

mkdir -p "$dir/policies" "$dir/monitoring"
render pod-info-fuse.yaml 'Installs the driver on every node.' \
	--set createNamespace=true
render pod-info-fuse-csi.yaml 'Installs the driver on every node, for FlexVolume and for CSI.' \
	--set createNamespace=true --set csi.enabled=true
render pod-fuse.yaml 'Installs both drivers on every node.' \
	--set createNamespace=true --set podFuse.enabled=true
render uninstall.yaml 'Removes both drivers from every node: apply it, wait for the rollout, delete it.' \
	--set createNamespace=true --set podFuse.enabled=true --set uninstall=true
render uninstall-csi.yaml 'Removes both drivers from every node where the first is there for CSI, too: apply it, wait for the rollout, delete it.' \
	--set createNamespace=true --set podFuse.enabled=true --set uninstall=true --set csi.enabled=true
render uninstall-pod-fuse.yaml 'Removes pod-fuse from every node, and leaves pod-info-fuse: apply it, wait for the rollout, apply pod-info-fuse.yaml.' \
	--set createNamespace=true --set podFuse.uninstall=true
render policies/validating-admission-policy.yaml \
	'Kubernetes 1.30 and later: no FlexVolume driver but this one.' \
	--set policies.validatingAdmissionPolicy=true \
	--show-only templates/validatingadmissionpolicy.yaml
render policies/validating-admission-policy-csi.yaml \
	'The same, and no volumes of this driver, by either door, in namespaces with a label.' \
	--set policies.validatingAdmissionPolicy=true --set csi.enabled=true \
	--show-only templates/validatingadmissionpolicy.yaml
render policies/validating-admission-policy-pod-fuse.yaml \
	'Kubernetes 1.30 and later: no FlexVolume driver but these two, and pod-fuse only in namespaces with a label.' \
	--set policies.validatingAdmissionPolicy=true --set podFuse.enabled=true \
	--show-only templates/validatingadmissionpolicy.yaml
render policies/pod-security-policy.yaml \
	'Kubernetes up to 1.24: who may use the driver, and what the installer needs.' \
	--set policies.podSecurityPolicy=true \
	--show-only templates/podsecuritypolicy.yaml --show-only templates/rbac.yaml
render policies/security-context-constraints.yaml \
	'OpenShift: who may use the driver, and what the installer needs.' \
	--set policies.securityContextConstraints=true \
	--show-only templates/securitycontextconstraints.yaml --show-only templates/rbac.yaml
render monitoring/monitoring.yaml \
	'Alerts and a dashboard for both drivers, for the Prometheus operator and Grafana, and who may reach the metrics.' \
	--set podFuse.enabled=true --set metrics.podMonitor.enabled=true --set metrics.prometheusRule.enabled=true \
	--set metrics.dashboard.enabled=true --set metrics.networkPolicy.enabled=true \
	--show-only templates/podmonitor.yaml --show-only templates/prometheusrule.yaml \
	--show-only templates/dashboard.yaml --show-only templates/networkpolicy.yaml
