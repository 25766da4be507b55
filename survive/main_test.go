package survive_test

import (
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

func TestMain(m *testing.M) {
	testnode.Main(m,
		"TestABrokenNewVersionChangesNothing",
		"TestAContainerThatDoesNotAnswerIsLeftAlone",
		"TestADaemonThatIsLateInAnUpgradeServesOn",
		"TestADaemonThatIsSilentInAnUpgradeServesOn",
		"TestAHungProcessIsReplaced",
		"TestAHungStandbyIsReplaced",
		"TestAMountThatHasWaitedLongAsksTheDaemon",
		"TestANewbornProcessThatIsStoppedHoldsNobody",
		"TestAPairThatHangsAndDiesIsHealed",
		"TestAProcessThatCannotEndIsReplaced",
		"TestARootThatIsBadKeepsNobodyFromTheNode",
		"TestAStaleLockCostsOneWait",
		"TestATakeOverIsNoLoss",
		"TestAVolumeThatIsUnmountedWhileItWaitsToBeHealed",
		"TestAWatchHasLostRecordsMadeAnew",
		"TestAnAnswerForEverIsNoSignOfLife",
		"TestAnInstallerThatWatchesDoesNotRepeatAFailedUpgrade",
		"TestMountEndsWhateverTheDaemonDoes",
		"TestNobodyIsLeftWhoWasJustBorn",
		"TestNobodyServes",
		"TestNobodyWaitsForTheLockWhileADaemonIsAsked",
		"TestNothingIsStartedWhereStopIsFasterThanAnUpgrade",
		"TestThereIsAStandbySoonHoweverManyHaveDied",
		"TestUnmountDoesNotWaitForAHungDaemon",
		"TestUpgradeGivesUpOnADaemonThatDoesNotAnswer",
		"TestUpgradeOutlivesTheDeathOfTheOldProcessInTheMiddle",
	)
}
