package remote

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// serverName is the name in every certificate. It means nothing: some TLS libraries insist on one.
const serverName = "iota"

// certificate makes the self-signed certificate that carries a key. It never expires: it says nothing but the key.
func certificate(key ed25519.PrivateKey) (tls.Certificate, error) {
	if len(key) != ed25519.PrivateKeySize {
		return tls.Certificate{}, fmt.Errorf("an ed25519 key of %d bytes: it must have %d", len(key), ed25519.PrivateKeySize)
	}
	own := template()
	own.IsCA = true
	own.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, own, own, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// delegate makes a P-256 certificate that the key's own certificate signed, for diallers whose TLS library does not
// verify ed25519 in a handshake. Its private key lives as long as this process.
func delegate(own tls.Certificate) (tls.Certificate, error) {
	root, err := x509.ParseCertificate(own.Certificate[0])
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template(), root, key.Public(), own.PrivateKey)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der, own.Certificate[0]}, PrivateKey: key}, nil
}

func template() *x509.Certificate {
	return &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: serverName},
		DNSNames:              []string{serverName},
		NotBefore:             time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:              time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // stands for "never"
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
}

// peerKey returns the key that the other end of a handshake proved to have.
func peerKey(state tls.ConnectionState) (ed25519.PublicKey, error) {
	if len(state.PeerCertificates) == 0 {
		return nil, errors.New("no certificate")
	}
	key, ok := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("a certificate with a key of type %T, not ed25519", state.PeerCertificates[0].PublicKey)
	}
	return key, nil
}

// base is what both sides ask of TLS. A certificate is taken for the key in it, whose possession the handshake proves;
// chains, names and dates count for nothing.
func base(key ed25519.PrivateKey) (*tls.Config, error) {
	own, err := certificate(key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		Certificates:                []tls.Certificate{own},
		MinVersion:                  tls.VersionTLS13,
		NextProtos:                  []string{"h2"},
		SessionTicketsDisabled:      true,
		DynamicRecordSizingDisabled: true,
	}, nil
}

// serverTLS accepts any key.
func serverTLS(key ed25519.PrivateKey) (*tls.Config, error) {
	c, err := base(key)
	if err != nil {
		return nil, err
	}
	second, err := delegate(c.Certificates[0])
	if err != nil {
		return nil, err
	}
	c.Certificates = append(c.Certificates, second) // TLS takes the first that the dialler can verify
	c.ClientAuth = tls.RequireAnyClientCert
	c.VerifyConnection = func(state tls.ConnectionState) error {
		_, err := peerKey(state)
		return err
	}
	return c, nil
}

// clientTLS accepts the orchestrator's key and no other.
func clientTLS(key ed25519.PrivateKey, a Address) (*tls.Config, error) {
	c, err := base(key)
	if err != nil {
		return nil, err
	}
	c.ServerName = serverName
	c.InsecureSkipVerify = true // of chains and names; the key is what is verified
	c.VerifyConnection = func(state tls.ConnectionState) error {
		switch key, err := peerKey(state); {
		case err != nil:
			return &wrongKey{fmt.Sprintf("the orchestrator at %s shows %v: check the join string", a.Host, err)}
		case !key.Equal(a.Key):
			return &wrongKey{fmt.Sprintf("the orchestrator at %s has key %s, not %s: check the join string",
				a.Host, hex.EncodeToString(key), hex.EncodeToString(a.Key))}
		}
		return nil
	}
	return c, nil
}

// wrongKey says that somebody else answers at an address.
type wrongKey struct{ text string }

func (e *wrongKey) Error() string { return e.text }
