package csi

// What takes a minute, for tests that do not.
var (
	InitAgain           = &initInterval
	RegistrationSilence = &registrationTimeout
)
