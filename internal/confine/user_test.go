package confine

import "testing"

// Two programs have nothing of each other's, and the group of the run directory never changes.
func TestAProgramHasAGroupOfItsOwn(t *testing.T) {
	for program, want := range map[string]uint32{"pod-info-fuse": 4200000001, "pod-fuse": 4255012277} {
		if group := GroupOf(program); group != want {
			t.Errorf("%s has group %d, want %d", program, group, want)
		}
	}
	programs := map[uint32]string{}
	for _, program := range []string{"pod-info-fuse", "clock", "clocks", "a", "b", "pod-info"} {
		group := GroupOf(program)
		if programs[group] != "" || group < firstUser || group > lastUser {
			t.Errorf("%s has group %d, and %q has the same", program, group, programs[group])
		}
		programs[group] = program
	}
}

func TestADaemonsUserIsNobodys(t *testing.T) {
	users := map[uint32]bool{}
	for range 1000 {
		user, err := RandomUser()
		if err != nil {
			t.Fatal(err)
		}
		if user < firstUser || user > lastUser {
			t.Fatalf("user %d", user)
		}
		users[user] = true
	}
	if len(users) < 990 {
		t.Errorf("a thousand daemons have %d users", len(users))
	}
}
