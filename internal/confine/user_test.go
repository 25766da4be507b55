package confine

import "testing"

// Two programs have nothing of each other's, and an upgrade keeps the user.
func TestAProgramHasAUserOfItsOwn(t *testing.T) {
	user := DefaultUser("pod-info-fuse")
	if want := (User{UID: 4200000001, GID: 4200000001}); user != want {
		t.Errorf("%+v, want %+v", user, want)
	}
	programs := map[uint32]string{}
	for _, program := range []string{"pod-info-fuse", "clock", "clocks", "a", "b", "pod-info"} {
		u := DefaultUser(program)
		if programs[u.UID] != "" || u.UID != u.GID || u.UID%2 != 1 || u.UID < 4200000001 || u.UID > 1<<32-3 {
			t.Errorf("%s is %+v, and %q is the same", program, u, programs[u.UID])
		}
		programs[u.UID] = program
	}
}
