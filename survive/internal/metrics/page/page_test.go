// Package page has the tests that read what package metrics writes with Prometheus's own parser.
// They stand apart from it because go.sum lists what the tests of imported packages import: a
// driver outside of this module needs no Prometheus.
package page
