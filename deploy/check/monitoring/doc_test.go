// Package monitoring has the tests of what tells of the driver: of each alert, that it fires when it
// should and not otherwise, by the functions of Prometheus that its promtool test rules calls; of
// the dashboard, and of both, that they ask for metrics which the driver tells. Which these are
// says the table in docs/installer.md, and tests of the drivers hold that. `make monitoring-check` runs
// them, and builds the Helm that they execute.
//
// promtool itself is not built: it links every service discovery that Prometheus has.
package monitoring
