package csi

// InitAgain takes a minute, for tests that do not.
var InitAgain = &initInterval
