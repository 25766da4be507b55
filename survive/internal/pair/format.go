//go:build !newer

package pair

// format is the format of the packets between the processes of a pair, and on the control
// socket. A packet has the format that its receiver must know to understand it: a version
// that knows a newer one speaks as the other end does. A packet of a newer format is refused,
// and so is an upgrade or a downgrade, before the old pair hands over.
const format = 1
