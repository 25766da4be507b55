//go:build cluster

package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"time"
)

// An authority signs the certificates of the cluster.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

// template is a certificate that is valid for as long as the tests may run.
func (a *authority) template(subject pkix.Name) *x509.Certificate {
	a.serial++
	return &x509.Certificate{
		SerialNumber: big.NewInt(a.serial),
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// newAuthority writes its own certificate to a file.
func newAuthority(file string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{key: key}
	a.certificate = a.template(pkix.Name{CommonName: "e2e"})
	a.certificate.IsCA, a.certificate.BasicConstraintsValid = true, true
	a.certificate.KeyUsage |= x509.KeyUsageCertSign
	return a, a.sign(file, a.certificate, &key.PublicKey)
}

// issue writes a new key and its certificate to prefix.key and prefix.crt.
func (a *authority) issue(prefix string, subject pkix.Name, addresses ...net.IP) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if err := writeKey(prefix+".key", key); err != nil {
		return err
	}
	certificate := a.template(subject)
	certificate.IPAddresses = addresses
	return a.sign(prefix+".crt", certificate, &key.PublicKey)
}

func (a *authority) sign(file string, certificate *x509.Certificate, key *ecdsa.PublicKey) error {
	signed, err := x509.CreateCertificate(rand.Reader, certificate, a.certificate, key, a.key)
	if err != nil {
		return err
	}
	return writePEM(file, "CERTIFICATE", signed)
}

func writeKey(file string, key *ecdsa.PrivateKey) error {
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(file, "EC PRIVATE KEY", encoded)
}

func writePEM(file, kind string, content []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600)
}
