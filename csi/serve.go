package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Serve serves at a socket until the context ends, and registers the plugin with the kubelet by a
// socket in the registration's directory; "" for no registration. At the end it removes its
// sockets, that of the registration first, and waits some seconds for the requests that are being
// answered.
func (p *Plugin) Serve(ctx context.Context, socket, registrationDir string) error {
	if err := p.check(); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("mounting needs root")
	}
	at, err := listen(socket)
	if err != nil {
		return err
	}
	defer at.Close()
	server := grpc.NewServer(
		grpc.UnaryInterceptor(p.intercept), grpc.MaxRecvMsgSize(maxMessage), grpc.ReadBufferSize(4<<10), grpc.WriteBufferSize(4<<10),
	)
	refused := make(chan string, 1)
	csi.RegisterIdentityServer(server, identity{Plugin: p})
	csi.RegisterNodeServer(server, newNode(p))
	registration.RegisterRegistrationServer(server, registrar{Plugin: p, refused: refused})
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(at) }()
	defer stop(server)
	p.Log("version %s of %s serves driver %s at %s", p.Version, p.name(), p.Driver, socket)
	if registrationDir != "" {
		registered, end := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() { defer close(done); ended <- p.register(registered, server, refused, registrationDir) }()
		defer func() { end(); <-done }() // before the server ends: the kubelet calls nobody then
	}
	select {
	case <-ctx.Done():
		p.Log("ending")
		return nil
	case err := <-ended:
		return err
	}
}

// Socket returns the path of an endpoint: unix://PATH, or PATH alone (CSI specification,
// "Endpoint").
func Socket(endpoint string) (path string, err error) {
	path = strings.TrimPrefix(endpoint, "unix://")
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("%.200q is not of the form unix:///PATH; a plugin serves at a socket of this machine", endpoint)
	}
	return path, nil
}

// stopTimeout is how long requests may go on after the plugin was told to end. The next call-out
// repairs what a call-out leaves that is killed then. It is less than the five seconds that the pod
// has (terminationGracePeriodSeconds).
const stopTimeout = 3 * time.Second

// stop ends the server when its requests have ended, or after that time. Then it does not wait:
// [grpc.Server.Stop] would wait two minutes for a client that has connected and says nothing.
func stop(server *grpc.Server) {
	ended := make(chan struct{})
	go func() { defer close(ended); server.GracefulStop() }()
	select {
	case <-ended:
	case <-time.After(stopTimeout):
		go server.Stop()
	}
}

// maxMessage is the largest request, in bytes. The kubelet's have some KiB.
const maxMessage = 128 << 10

// intercept logs failures, but for Probe's, and makes a panic the failure of its request only.
func (p *Plugin) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (response any, err error) {
	defer func() {
		if err != nil && info.FullMethod != csi.Identity_Probe_FullMethodName {
			s := status.Convert(err)
			p.Log("%s: %s: %s", info.FullMethod, s.Code(), s.Message())
		}
	}()
	defer p.recovered(&err)
	return handle(ctx, request)
}

// recovered, deferred, makes a panic an error.
func (p *Plugin) recovered(err *error) {
	if problem := recover(); problem != nil {
		p.Log("panic: %v: %s", problem, debug.Stack())
		*err = status.Errorf(codes.Internal, "internal error: %v", problem)
	}
}

// listener is a socket that is listened at. Its file ends with it, unless another process has put
// its own there: a pod that is forced away ends after its successor has begun.
type listener struct {
	*net.UnixListener
	file fs.FileInfo
}

func (l listener) Close() error {
	err := l.UnixListener.Close()
	path := l.Addr().String()
	if there, statErr := os.Lstat(path); statErr == nil && os.SameFile(there, l.file) {
		os.Remove(path)
	}
	return err
}

// listen makes a socket for root, in the place of one that a process before may have left.
func listen(path string) (net.Listener, error) {
	if there, err := os.Lstat(path); err == nil && there.Mode().Type() == fs.ModeSocket {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	at, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	at.SetUnlinkOnClose(false)
	l := listener{UnixListener: at}
	if l.file, err = os.Lstat(path); err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		at.Close()
		return nil, err
	}
	return l, nil
}

// Probe asks the plugin that serves at a socket whether it is ready. The error says why it is
// not. live: any answer of the plugin will do. What it lacks then, a driver or rights, another
// process of it would lack as well.
func Probe(ctx context.Context, socket string, live bool) error {
	connection, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = csi.NewIdentityClient(connection).Probe(ctx, &csi.ProbeRequest{})
	if err == nil || live && status.Code(err) == codes.FailedPrecondition {
		return nil
	}
	return errors.New(status.Convert(err).Message())
}
