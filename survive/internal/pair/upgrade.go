package pair

import "fmt"

// An upgrade, between the active process and a call-out of the new version:
//
//	call-out                         active process
//	   │ holds the pair, and takes     │
//	   │ /dev/fuse and the control     │
//	   │ socket from it; see peer      │
//	   │ ─── upgrade, end of link ───> │
//	   │ <──────────── ok ──────────── │
//	   │ starts the new version, and   │
//	   │ moves it to its cgroup        │
//	   │ ───────── proceed ──────────> │ sends the old standby away,
//	   │                               │ hands over to the new process
//	   │ <────── done, or error ────── │ and exits
//	   │ asks the new process, and     │
//	   │ ends what is left of the pair
//
// "done" is the word of a process that somebody may have taken over. The call-out goes by the new
// process: the lock that it has, and that it answers.
//
// The call-out starts the process, because it is root and of the new version; the pair
// executes nothing but its own binary.
type upgrade struct {
	client  request
	proceed bool // the client has said so
}

func (a *active) beginUpgrade(r request) {
	if r.link == nil {
		r.reply(reply{Error: "upgrade: there is no link to the new process; is that a much older version?"})
		return
	}
	if a.next != nil { // call-outs take turns: the one before was killed, which is not known here yet
		a.upgradeFailed("another call-out upgrades")
	}
	a.Log("upgrade from version %s to %s begins", a.Version, r.Version)
	a.next = newChild(r.link, nil)
	a.upgrade = upgrade{client: r}
	r.reply(reply{})
}

// proceed notes that the client is done with the new process.
func (a *active) proceed(r request) (done bool) {
	if a.next == nil || a.upgrade.client.client != r.client {
		r.reply(reply{Error: "there is no upgrade to proceed with"})
		return false
	}
	a.upgrade.proceed = true
	return a.finishUpgrade()
}

// hungUp ends the upgrade of a client that is gone, so that the next one can begin at once.
func (a *active) hungUp(client any) {
	if a.next != nil && a.upgrade.client.client == client {
		a.upgradeFailed("the call-out ended")
	}
}

// fromNext handles a message from the new process.
func (a *active) fromNext(m message, open bool) (done bool) {
	switch {
	case !open:
		a.upgradeFailed("the new version died before it was ready")
	case m.Kind == broken:
		a.upgradeFailed(m.Problem)
	case m.Kind == ready:
		a.next.about = m.Process
		return a.finishUpgrade()
	}
	return false
}

// finishUpgrade hands over when both the new process and the client are ready.
func (a *active) finishUpgrade() (done bool) {
	if !a.next.ready() || !a.upgrade.proceed {
		return false
	}
	a.standby.dismiss()
	a.standby = nil
	before := a.history
	if a.next.about.Version != a.Version {
		a.history.Upgrades++
	}
	a.next.adopt(*a.next.about, a.history)
	if a.handOver(a.next) {
		a.upgrade.client.reply(reply{})
		return true
	}
	a.history = before
	a.upgradeFailed("the new version was ready, but did not serve")
	a.startStandby()
	return false
}

// upgradeFailed leaves everything as it was, and tells the client why.
func (a *active) upgradeFailed(why string) {
	a.Log("upgrade failed: %s", why)
	a.upgrade.client.reply(reply{Error: brief(fmt.Sprintf("version %s goes on: %s", a.Version, why))})
	a.next.dismiss() // or, without a starter, it might take over
	a.next = nil
}
