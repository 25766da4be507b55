// Package monitoring has the tests of what tells of the driver: of each alert, that it fires when
// it should and not otherwise, by Prometheus' promtool test rules; of the dashboard, that it is of
// Grafana's schema; and of both, that they ask for metrics which the driver tells. Which these are
// says the table in docs/installer.md, and tests of the drivers hold that. `make monitoring-check`
// runs them, and builds what they execute: Helm, and promtool, without the service discoveries that
// it could test as well.
package monitoring
