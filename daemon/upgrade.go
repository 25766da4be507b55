package daemon

import "fmt"

// An upgrade, between the active process and a call-out of the new version:
//
//	call-out                         active process
//	   │ ───────── upgrade ──────────> │
//	   │ <─ link, device, lock, ctl ── │
//	   │ starts the new version, and   │
//	   │ moves it to its cgroup        │
//	   │ ───────── proceed ──────────> │ sends the old standby away,
//	   │                               │ hands over to the new process
//	   │ <────── done, or error ────── │ and exits
//
// The call-out starts the process, because it is root and what is installed is
// its business; the pair executes nothing but itself.
type upgrade struct {
	client  request
	proceed bool // the client has said so
}

func (a *active) beginUpgrade(r request) {
	if a.next != nil {
		r.reply(reply{Error: "another upgrade is under way"})
		return
	}
	ours, theirs, err := linkPair()
	if err != nil {
		r.reply(reply{Error: err.Error()})
		return
	}
	defer theirs.Close()
	a.Log("upgrade from version %s to %s begins", a.Version, r.Version)
	a.next = newChild(ours, nil)
	a.upgrade = upgrade{client: r}
	r.reply(reply{}, int(theirs.Fd()), a.resources.Device, int(a.resources.Lock.Fd()), int(a.resources.Control.Fd()))
}

// proceed notes that the client is done with the new process.
func (a *active) proceed(r request) (done bool) {
	if a.next == nil || a.upgrade.client.conn != r.conn {
		r.reply(reply{Error: "there is no upgrade to proceed with"})
		return false
	}
	a.upgrade.proceed = true
	return a.finishUpgrade()
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
	if a.standby != nil {
		a.standby.send(message{Kind: leave})
		a.standby.end()
		a.standby = nil
	}
	before := a.history
	a.history.UpgradeError = ""
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

// upgradeFailed leaves everything as it was, and says why.
func (a *active) upgradeFailed(why string) {
	a.Log("upgrade failed: %s", why)
	a.history.UpgradeError = why
	a.standby.send(message{Kind: remember, History: &a.history})
	a.upgrade.client.reply(reply{Error: fmt.Sprintf("version %s goes on: %s", a.Version, why)})
	a.next.end()
	a.next = nil
}
