package local

// For the tests in package local_test.
var (
	CheckPorts       = checkPorts
	CheckStateFolder = checkStateFolder
	CheckSpace       = checkSpace
	TakeLock         = takeLock
	Explain          = explain
	RemoveState      = removeState
	ErrLocked        = errLocked
)
