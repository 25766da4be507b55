// Package check has the tests of what is deployed: every object that the chart can
// render is one that the API server takes, and has what its value says. `make
// deploy-check` runs them, and builds the Helm that they execute.
//
// An API server ignores, or refuses, a field that it does not know. So everything
// is decoded strictly, into the types of the servers. Those of pod security
// policies are too old for this module; see psp.
package check
