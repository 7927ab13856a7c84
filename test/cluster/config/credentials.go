package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is the validity of a certificate. A cluster lives for hours.
const validity = 365 * 24 * time.Hour

func (c Cluster) pki(name string) string { return c.Path("pki", name) }

// WriteCredentials creates the keys, certificates and tokens of a new cluster. Existing credentials are kept.
func (c Cluster) WriteCredentials() error {
	if _, err := os.Stat(c.pki("tokens.csv")); err == nil {
		return nil // written last, so all credentials exist
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("looking for the cluster's credentials: %w", err)
	}
	if err := os.MkdirAll(c.Path("pki"), 0o700); err != nil {
		return fmt.Errorf("making the folder of the cluster's credentials: %w", err)
	}
	authority, err := newAuthority()
	if err != nil {
		return err
	}
	if err := authority.write(c.pki("ca")); err != nil {
		return err
	}
	for name, template := range c.certificates() {
		issued, err := authority.issue(template)
		if err != nil {
			return fmt.Errorf("issuing the certificate %s: %w", name, err)
		}
		if err := issued.write(c.pki(name)); err != nil {
			return err
		}
	}
	serviceAccountKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the key of service account tokens: %w", err)
	}
	if err := writeKey(c.pki("service-account.key"), serviceAccountKey); err != nil {
		return err
	}
	return c.writeTokens()
}

// certificates returns the templates of the certificates that the cluster's authority signs, by file name.
func (c Cluster) certificates() map[string]*x509.Certificate {
	return map[string]*x509.Certificate{
		"apiserver": {
			Subject:     pkix.Name{CommonName: "kube-apiserver"},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
			DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc." + DNSDomain},
			IPAddresses: []net.IP{net.ParseIP("127.0.0.1"), net.ParseIP(NodeAddress), net.ParseIP(APIService)},
		},
		// The API server's client certificate for the kubelet, for logs and exec.
		"kubelet-client": {
			Subject:     pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		},
		// The API server's client certificate for extension API servers, to act as a user.
		"front-proxy": {
			Subject:     pkix.Name{CommonName: "front-proxy"},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		},
	}
}

// keyPair is a certificate with its private key.
type keyPair struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority() (keyPair, error) {
	return sign(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "drydock-cluster"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}, nil)
}

func (authority keyPair) issue(template *x509.Certificate) (keyPair, error) {
	template.KeyUsage = x509.KeyUsageDigitalSignature
	return sign(template, &authority)
}

// sign completes the template and signs it with the authority. Without an authority it signs with the new key itself.
func sign(template *x509.Certificate, authority *keyPair) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("making a key: %w", err)
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return keyPair{}, fmt.Errorf("making a serial number: %w", err)
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(validity)
	issuer := keyPair{template, key}
	if authority != nil {
		issuer = *authority
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer.certificate, &key.PublicKey, issuer.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("signing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return keyPair{}, fmt.Errorf("reading back the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return keyPair{certificate, key}, nil
}

// write stores the pair as base.crt and base.key.
func (p keyPair) write(base string) error {
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.certificate.Raw})
	if err := os.WriteFile(base+".crt", certificate, 0o600); err != nil {
		return fmt.Errorf("writing the certificate %s: %w", filepath.Base(base), err)
	}
	return writeKey(base+".key", p.key)
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding the key %s: %w", filepath.Base(path), err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return fmt.Errorf("writing the key %s: %w", filepath.Base(path), err)
	}
	return nil
}
