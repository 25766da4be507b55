package standin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// requests answers the requests of pods, which come by one listening socket. Whoever sees a server
// volume in his container can connect to it, and send whatever he likes.
//
// A connection is one request and one answer. That of a program that is to serve comes from the
// mounter, which gets a duplicate of the connection, and says when it is done.
type requests struct {
	*service
	listener *net.UnixListener

	mu      sync.Mutex                // guards what follows
	closed  bool                      // no order is taken any more
	clients map[*packet.Socket]string // the pods of those that are connected
	waiting map[uint64]chan<- error   // for the end of an order
}

const (
	// requestTime is how long a client may take for its request.
	requestTime = 5 * time.Second
	// serveTime is how long the mounter may take for an order.
	serveTime = 30 * time.Second
	// mostClients are connected at the same time, and so many of one pod. One too many closes a
	// connection of the pod that has most: see makeRoom.
	mostClients      = 256
	mostClientsOfPod = 8
)

// errTemporary is an answer for which the client is not to blame.
var errTemporary = errors.New("the node's driver is being replaced; ask again")

func newRequests(s *service) *requests {
	return &requests{service: s, clients: map[*packet.Socket]string{}, waiting: map[uint64]chan<- error{}}
}

// open begins to answer. The socket stays the caller's.
func (q *requests) open(socket *os.File) error {
	listener, err := net.FileListener(socket)
	if err != nil {
		return fmt.Errorf("the socket for pods: %w", err)
	}
	var is bool
	if q.listener, is = listener.(*net.UnixListener); !is {
		listener.Close()
		return fmt.Errorf("the socket for pods is of type %T", listener)
	}
	go q.accept()
	return nil
}

func (q *requests) accept() {
	for {
		accepted, err := q.listener.AcceptUnix()
		var conn *packet.Socket
		if err == nil {
			conn, err = packet.Over(accepted)
		}
		if errors.Is(err, net.ErrClosed) {
			return
		} else if err != nil {
			time.Sleep(100 * time.Millisecond) // out of descriptors, for example
			continue
		}
		at := wire.SinceBoot()
		pid, err := peerOf(conn)
		var group []byte
		if err == nil {
			group, err = q.processes.cgroup(fmt.Sprint(pid))
		}
		pod := whose(group)
		if err != nil || !q.enter(conn, pod) {
			conn.End()
			continue
		}
		go func() {
			defer q.leave(conn)
			q.serve(conn, pod, pid, at)
		}()
	}
}

// whose is to whom a connection is counted: a pod, or a cgroup.
func whose(group []byte) string {
	if uid := podOf(group); uid != "" {
		return uid
	}
	return string(group)
}

// enter counts a connection, unless there are too many.
func (q *requests) enter(conn *packet.Socket, pod string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	of := map[string]int{}
	for _, other := range q.clients {
		of[other]++
	}
	if of[pod] >= mostClientsOfPod || len(q.clients) >= mostClients && !q.makeRoom(of, pod) {
		return false
	}
	q.clients[conn] = pod
	return true
}

// makeRoom ends a connection of the pod that has most, for one more of a pod. It returns false if
// the other pod would then have fewer. What the mounter was asked on that connection, it still
// answers. The caller has locked q.
func (q *requests) makeRoom(of map[string]int, pod string) bool {
	most := pod
	for other, n := range of {
		if n > of[most] {
			most = other
		}
	}
	if of[most] <= of[pod]+1 {
		return false
	}
	for conn, other := range q.clients {
		if other == most {
			delete(q.clients, conn)
			go conn.End()
			return true
		}
	}
	return false
}

func (q *requests) leave(conn *packet.Socket) {
	conn.End()
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.clients, conn)
}

// peerOf is the process that has connected, as the kernel tells.
func peerOf(conn *packet.Socket) (pid int, err error) {
	peer, err := conn.Peer()
	if err != nil {
		return 0, err
	}
	if peer.Pid == 0 {
		err = errors.New("the process is in a PID namespace that is not below the driver's")
	}
	return int(peer.Pid), err
}

// serve answers one client.
func (q *requests) serve(conn *packet.Socket, pod string, pid int, accepted time.Duration) {
	text, withFiles, err := conn.Peek(time.Now().Add(q.fs.requestTime))
	if err != nil && err != packet.ErrTooLong {
		return
	}
	var answer *wire.Answer
	if withFiles { // they stay in the socket, and the client may get ECONNRESET for the answer: see Socket.End
		err = errors.New("the request comes with descriptors")
	} else if skipErr := conn.Skip(); skipErr != nil {
		return
	} else if err != nil {
		err = fmt.Errorf("the request is longer than %d bytes", packet.Max)
	} else {
		answer, err = q.request(conn, pod, pid, accepted, text)
	}
	if err != nil {
		answer = &wire.Answer{Error: err.Error(), Again: errors.Is(err, errTemporary)}
	}
	if answer == nil {
		return
	}
	answer.Format = wire.Format
	_ = conn.SendBy(packet.NoFiles, requestTime, answer) // a client that is gone does not matter
}

// request does what a client wants. A nil answer was given by the mounter.
func (q *requests) request(conn *packet.Socket, pod string, pid int, accepted time.Duration, text []byte) (*wire.Answer, error) {
	r, err := parse(text)
	if err != nil {
		return nil, err
	}
	var record volume.Record
	looked := make(chan struct{})
	if !q.urgent.Add(pod, func() {
		defer close(looked)
		record, err = q.serverOf(pid, r.Server)
	}) {
		return nil, errTemporary
	}
	if <-looked; err != nil {
		return nil, err
	}
	client, err := podfuse.Client(record)
	if err != nil {
		return nil, fmt.Errorf("server volume %v: %w", record.ID(), err)
	}
	if r.Kind == wire.Ready {
		state, known := q.outages.state(client)
		if !known {
			return nil, errTemporary
		}
		return &wire.Answer{State: state}, nil
	}
	return q.pass(conn, wire.Order{
		Kind: r.Kind, Server: record.ID(), Options: r.Options, Mountpoint: r.Mountpoint, Accepted: accepted,
	})
}

// parse reads what a pod has written. What it names, the mounter checks.
func parse(text []byte) (r wire.Request, err error) {
	if err := json.Unmarshal(text, &r); err != nil && r.Format <= wire.Format {
		return r, errors.New("the request is not JSON of the expected form")
	}
	switch {
	case r.Format > wire.Format:
		return r, fmt.Errorf("the request is of format %d, and the node's driver knows %d at most; upgrade the driver", r.Format, wire.Format)
	case r.Format < 1:
		return r, errors.New("the request says no format")
	case r.Kind != wire.Serve && r.Kind != wire.Unmount && r.Kind != wire.Ready:
		return r, fmt.Errorf("the request is of kind %.20q, which is not known", r.Kind)
	case len(r.Mountpoint) > wire.LongestPath || len(r.Subtype) > wire.LongestSubtype:
		return r, fmt.Errorf("the request has a mount point of more than %d bytes, or a subtype of more than %d", wire.LongestPath, wire.LongestSubtype)
	}
	return r, nil
}

// serverOf is the record of the server volume that a process asks for. It must have that volume,
// and be of that pod.
func (q *requests) serverOf(pid int, id volume.ID) (volume.Record, error) {
	dir := strconv.Itoa(pid)
	group, err := q.processes.cgroup(dir)
	var servers []volume.ID
	if err == nil {
		servers, err = q.processes.servers(dir)
	}
	switch {
	case err != nil:
		return volume.Record{}, fmt.Errorf("look at process %d: %w", pid, err)
	case len(servers) == 0:
		return volume.Record{}, errors.New("the container has no server volume; mount one into it")
	case id == 0 && len(servers) > 1:
		return volume.Record{}, errors.New("the container has several server volumes, and the request does not say which one is meant")
	case id == 0:
		id = servers[0]
	case !slices.Contains(servers, id):
		return volume.Record{}, fmt.Errorf("the container has not server volume %v", id)
	}
	record, err := q.fs.layout.ServerVolumes().Get(id)
	if err != nil {
		return volume.Record{}, fmt.Errorf("server volume %v is not mounted any more, or its record cannot be read", id)
	}
	if pod := podOf(group); pod != "" && pod != podfuse.PlainUID(record.PodUID) {
		return volume.Record{}, fmt.Errorf("server volume %v is of pod %s, and the process is of another one", id, record.PodUID)
	}
	return record, nil
}

// pass passes a request on to the mounter, with the client's socket, and waits until it is done.
func (q *requests) pass(conn *packet.Socket, order wire.Order) (*wire.Answer, error) {
	duplicate, err := conn.Duplicate()
	if err != nil {
		return nil, fmt.Errorf("pass the request on: %w", err)
	}
	done := make(chan error, 1)
	order.Ticket = q.ticket()
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		duplicate.Close() // which is not the last
		return nil, errTemporary
	}
	q.waiting[order.Ticket] = done
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.waiting, order.Ticket)
	}()
	q.link.send(order, duplicate)
	limit := time.NewTimer(serveTime)
	defer limit.Stop()
	select {
	case err := <-done:
		return nil, err // nil: the mounter has answered, or still has the client
	case <-limit.C:
		return nil, fmt.Errorf("the node's mounter has not answered for %v; see its log", serveTime)
	}
}

// done: an order of this process is.
func (q *requests) done(event wire.Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if done := q.waiting[event.Ticket]; done != nil {
		delete(q.waiting, event.Ticket)
		var err error
		if event.Error != "" {
			err = errors.New(event.Error)
		}
		done <- err
	}
}

// close ends the wait for all orders, with an answer to the clients, or with none, and takes no
// more.
func (q *requests) close(answer error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for _, done := range q.waiting {
		done <- answer
	}
	clear(q.waiting)
}

// end leaves the clients to the process that serves next, if they ask again, or to the mounter,
// which has their sockets.
func (q *requests) end() {
	if q.listener != nil {
		q.listener.Close()
	}
	q.close(nil)
}
