//go:build mutate

package mutants

var mutants = []mutant{
	// Call-outs.
	{
		"the record of a mount that has failed stays",
		"TestALinkInThePlaceOfAVolumeLeadsNowhere", "survive/mount.go",
		[]string{`err = errors.Join(err, n.Volumes().Delete(record.ID()))`, ``},
	},
	{
		"a mount that fails ends what a container has of the volume",
		"TestAMountThatFailsWhereAVolumeLingers", "survive/mount.go",
		[]string{`n.Volumes().Put(before), n.linger(record.ID())`, `n.Volumes().Delete(record.ID())`},
	},
	{
		"a mount that fails has taken away what was mounted, and the kubelet removes the directory",
		"TestAMountThatFailsOverADeadOne", "survive/mount.go",
		[]string{`		put = n.replaceAll`, `		put = n.replaceAll
		if err := n.detachAll(point.Path); err != nil {
			return false, err
		}`},
	},
	{
		"a FlexVolume that is mounted again does not count as one, and its driver is removed",
		"TestAContainerReadsOnWhenItsVolumeIsUnmounted", "survive/mount.go",
		[]string{`if err := n.lingerNoMore(record.ID()); err != nil { // first`, `if err := error(nil); err != nil { // first`},
	},
	{
		"an unmount that fails has ended the volume",
		"TestUnmountLeavesOthersMountsAlone", "survive/mount.go",
		[]string{`	defer unlock()
	if err := n.removeAll(dir); err != nil {`, `	defer unlock()
	if err := errors.Join(n.removeRecord(volume.NewID(dir)), n.removeAll(dir)); err != nil {`},
	},
	{
		"a start that fails leaves a node mount that nobody serves",
		"TestAFileSystemThatOpensWhatItMayNotFailsTheMount", "survive/start.go",
		[]string{`if !serves {`, `if !serves && false {`},
	},
	{
		"nobody knows what the lost daemon has served, and containers are not healed",
		"TestAContainerReadsOnWhenItsVolumeIsUnmounted", "survive/dead.go",
		[]string{`	err := n.keep(root)
	if err == nil {
		err = root.Detach()
	}`, `	err := root.Detach()
	if err == nil {
		err = n.keep(root)
	}`},
	},
	{
		"a daemon that nobody has found is not known as lost, and containers are not healed",
		"TestAContainerReadsOnWhenItsVolumeIsUnmounted", "survive/start.go",
		[]string{`	if err := n.retireNodeMount(); err != nil {
		return nil, err
	}
	if err := n.clear(); err != nil {
		return nil, err
	}`, `	if err := n.clear(); err != nil {
		return nil, err
	}
	if err := n.retireNodeMount(); err != nil {
		return nil, err
	}`},
	},
	{
		"what could not be healed is forgotten, and never healed",
		"TestAContainerThatDoesNotAnswerIsLeftAlone", "survive/heal.go",
		[]string{`if !left[device] {`, `if !left[device] || true {`},
	},
	{
		"an unmount leaves what a healing puts there at the same time",
		"TestAVolumeThatIsUnmountedWhileItWaitsToBeHealed", "survive/heal.go",
		[]string{`n.lockVolumeUntil(dead.volume, time.Now().Add(n.within(healLockTimeout)))`, `func() {}, error(nil)`},
	},
	{
		"an upgrade that another call-out has done is told as one that failed",
		"TestWhatAnotherCallOutHasUpgradedIsNoFailedUpgrade", "survive/upgrade.go",
		[]string{`if err != nil || !due { // another`, `if err != nil || !due && false { // another`},
	},
	{
		"a version that does not serve is noted, and none takes over any more",
		"TestAFailedUpgradeIsRepeatedOnlyWhenSomethingHasChanged", "survive/upgrade.go",
		[]string{`	defer n.dropNotes()`, `	if err := keepNotes(); err != nil {
		return err
	}
	defer n.dropNotes()`},
	},
	{
		"a call-out that was killed has replaced the daemon, and nobody knows",
		"TestAVersionThatWasNotNotedIsReplaced", "survive/upgrade.go",
		[]string{` && !exists(n.path(unkept(noteOfVersion)))`, ``},
	},
	{
		"a companion is started for a driver that is being stopped, and stays",
		"TestACompanionIsStartedUnderTheLock", "survive/upgrade.go",
		[]string{`	_, due, err := n.upgradeDue()
	due = due && wanted()
	unlock()`, `	unlock()
	_, due, err := n.upgradeDue()
	due = due && wanted()`},
	},

	// The mounter.
	{
		"a mounter that is killed has lost an order that it had read",
		"TestKilled/order_attach", "podfuse/mounter/peer.go",
		[]string{`				pause("order " + string(o.Kind))
				if release, err = m.take(p, o, withFiles); err != nil {
					m.refuse(&troubles, "%s of volume %s: %v", o.Kind, o.Volume, err)
				}
			}
		}
		_ = p.socket.Skip()`, `				if !withFiles {
					_ = p.socket.Skip()
				}
				pause("order " + string(o.Kind))
				if release, err = m.take(p, o, withFiles); err != nil {
					m.refuse(&troubles, "%s of volume %s: %v", o.Kind, o.Volume, err)
				}
				if !withFiles {
					continue
				}
			}
		}
		_ = p.socket.Skip()`},
	},
	{
		"a mounter that is killed with an answer has lost it",
		"TestKilled/tell_attached", "podfuse/mounter/peer.go",
		[]string{`		pause("tell " + string(e.Kind))`, `		if e.order != "" {
			m.do(func() { m.dropOrder(e.order) })
		}
		pause("tell " + string(e.Kind))`},
	},
	{
		"a program that has its connection is given another one, which it does not read",
		"TestKilled/sent", "podfuse/mounter/serve.go",
		[]string{`m.note(c, func() { c.Sent = time.Now() })`, `m.note(c, func() {})`},
	},
	{
		"a container that looks first gets the mount of a program that was killed",
		"TestNobodyIsSentToADeadProgram", "podfuse/mounter/attach.go",
		[]string{`	if err := m.lives(o, until); err != nil {
		return err
	}
`, ``},
	},
	{
		"who waits is sent to a program that has died meanwhile",
		"TestAProgramThatDiesWhileItIsAttached", "podfuse/mounter/attach.go",
		[]string{`	return m.lives(o, until)
`, `	return nil
`},
	},
	{
		"who waits is told before he has the mount",
		"TestAProgramThatDiesWhileItIsAttached", "podfuse/mounter/attach.go",
		[]string{`	if err := m.attachAll(o, record, until); err != nil {
		return err
	}`, `	go m.attachAll(o, record, until)`},
	},
	{
		"before Linux 6.9, who looks while a program dies gets an error",
		"TestBeforeLinux69", "podfuse/mounter/death.go",
		[]string{`	if !resends {
		defer m.uncoverDead(c)()
	}
	m.abort([]*connection{c})`, `	m.abort([]*connection{c})
	if !resends {
		defer m.uncoverDead(c)()
	}`},
	},
	{
		"a program that is started again finds its mount point taken by its own dead mount",
		"TestNeverServed", "podfuse/mounter/death.go",
		[]string{`	own := m.detachOwn(c)
	kept,`, `	own := error(nil)
	kept,`},
	},
	{
		"a program whose own mount could not be removed at once never starts again",
		"TestOwnMountThatIsRemovedLater", "podfuse/mounter/death.go",
		[]string{`	if kept {
		m.detachOwnAgain(c, own)`, `	if kept {`},
	},
	{
		"a mounter that is killed does not end an unmount that it has begun",
		"TestUnmount/unmounting", "podfuse/mounter/leave.go",
		[]string{`		m.set.Note(o.name, o)`, ``},
	},
	{
		"a program is told that it is unmounted where it is not",
		"TestUnmountOnceMore", "podfuse/mounter/leave.go",
		[]string{`	if err := errors.Join(m.detachOwn(c)`, `	sendErr := socket.Send(sendTime, wire.Answer{Format: wire.Format})
	if err := errors.Join(m.detachOwn(c)`,
			`	sendErr := socket.Send(sendTime, wire.Answer{Format: wire.Format})
	pause("unmounting")`, `	pause("unmounting")`},
	},
	{
		"a program serves a volume that was unmounted",
		"TestUnmountBeforeItIsAdmitted", "podfuse/mounter/serve.go",
		[]string{`	pause("admit")`, `	_, recordErr := m.ServerVolumes().Get(o.Server)
	pause("admit")`, `if _, err := m.ServerVolumes().Get(o.Server); errors.Is(err, fs.ErrNotExist) {
		m.abandon(c)`, `if errors.Is(recordErr, fs.ErrNotExist) {
		m.abandon(c)`},
	},
	{
		"what is mounted while its volume is unmounted stays",
		"TestUnmountWhileItIsMounted", "podfuse/mounter/control.go",
		[]string{`					c.forgotten = true
`, ``},
	},

	// The installer.
	{
		"what is no driver takes the place of one",
		"TestWhatIsNoDriverIsNotInstalled", "install/install.go",
		[]string{`	if err := t.answers(hiddenIn(staged, t.Driver.File())); err != nil {
		return err
	}
`, ``, `errors.Join(os.Chmod(dir, 0o755), syncDir(dir))`, `errors.Join(os.Chmod(dir, 0o755), syncDir(dir), t.answers(filepath.Join(dir, t.Driver.File())))`},
	},
	{
		"a version reads the configuration of a newer one, and refuses it",
		"TestTheBinaryIsReplacedBeforeItsConfiguration", "install/install.go",
		[]string{`names = append(names, ConfigFile)`, `names = append([]string{ConfigFile}, names...)`},
	},
	{
		"an installer removes what another one is about to install",
		"TestALockThatIsNeverReleased", "install/target.go",
		[]string{`	err = filelock.Within(time.Now().Add(lockTimeout), directory, filelock.Flock(unix.LOCK_EX))
	if err == nil {
		err = t.sweep()
	}`, `	if err = t.sweep(); err == nil {
		err = filelock.Within(time.Now().Add(lockTimeout), directory, filelock.Flock(unix.LOCK_EX))
	}`},
	},
	{
		"the kubelet looks for a driver in what is left of its directory",
		"TestTheExecutableIsRemovedLastAndInItsPlace", "install/uninstall.go",
		[]string{`	executable := t.Driver.File()
`, `	executable := t.Driver.File()
	if err := os.Link(t.Binary(), hiddenIn(to, executable)); err != nil {
		return nil, err
	} else if err := os.Remove(t.Binary()); err != nil {
		return nil, err
	}
`},
	},
	{
		"a volume that is mounted while the driver is removed stays without it",
		"TestWhatCannotBeRemovedIsPutBack", "install/uninstall.go",
		[]string{`	taken, err := t.takeFiles(root)
	if err == nil {
		err = again()
	}`, `	taken, err := []string(nil), again()
	if err == nil {
		taken, err = t.takeFiles(root)
	}`},
	},
	{
		"the kubelet calls a driver that is put back before it has its configuration",
		"TestWhatCannotBeRemovedIsPutBack", "install/uninstall.go",
		[]string{`		for _, name := range taken {`, `		for i := range taken {
			name := taken[len(taken)-1-i]`},
	},
	{
		"while volumes are in use, what the driver has elsewhere on the node goes",
		"TestADriverWithdrawsBeforeItsConfigurationGoes", "install/uninstall.go",
		[]string{`	if err := stop(); err != nil {
		return err
	}
	if _, err := os.Lstat(t.Dir())`, `	if _, err := os.Lstat(t.Dir())`},
	},
	{
		"what the driver has elsewhere on the node stays, as nobody knows what it was",
		"TestADriverWithdrawsBeforeItsConfigurationGoes", "install/uninstall.go",
		[]string{`		if err := t.Withdraw(t.Dir()); err != nil {
			return err
		}`, `		defer t.Withdraw(t.Dir())`},
	},
	{
		"the sockets of a CSI plugin go before its volumes, and nobody can unmount these",
		"TestUninstallClosesTheDoorForCSI", "install/uninstall.go",
		[]string{`	if err := t.uninstall(binary, force); err != nil {
		return err
	}
	beside := t`, `	_ = t.CloseCSI()
	if err := t.uninstall(binary, force); err != nil {
		return err
	}
	beside := t`},
	},
	{
		"a kubelet cannot release a persistent volume",
		"TestUninstallClosesTheDoorForCSI", "install/csi.go",
		[]string{`	t.removeDevices()
	dir := t.csiDir()`, `	defer t.removeDevices()
	dir := t.csiDir()`},
	},
}
