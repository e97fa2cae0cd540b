package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

func TestPodsAreScrapedWithAClientCertificateOverOneConnection(t *testing.T) {
	var callers []string
	pod := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 1 {
			callers = append(callers, r.RemoteAddr)
		}
		io.WriteString(w, "a 1\n")
	}))
	pod.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	pod.StartTLS()
	t.Cleanup(pod.Close)
	dir := t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(pod.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	// The pod's certificate is all there is: it is who signs, and who we are.
	certFile := writePEM(t, dir, "tls.crt", "CERTIFICATE", pod.Certificate().Raw)
	keyFile := writePEM(t, dir, "tls.key", "PRIVATE KEY", key)
	section := `{"components": {"etcd": {"targets": [{"pod": "etcd-0", "address": "` + pod.Listener.Addr().String() + `"}],
		"tlsConfig": {"caFile": "tls.crt", "certFile": "` + certFile + `", "keyFile": "` + keyFile + `", "serverName": "example.com"},
		"labels": {"job": "etcd", "namespace": "openshift-etcd", "service": "etcd-svc", "endpoint": "https"}}}}`
	configFile := filepath.Join(dir, "config.json")
	if err := os.WriteFile(configFile, []byte(section), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := readConfig(configFile)
	if err != nil {
		t.Fatal(err)
	}
	proxy, err := newProxy(config, 1)
	if err != nil {
		t.Fatal(err)
	}
	for range [2]int{} {
		if text := get(proxy, "/metrics/etcd", "").Body.String(); !strings.HasSuffix(text, "} 1\n") {
			t.Fatal(text)
		}
	}
	if len(callers) != 2 || callers[0] != callers[1] {
		t.Errorf("scrapes came with a certificate from %q", callers)
	}
}

func TestABodyThatBreaksOffBetweenLinesIsNotWhole(t *testing.T) {
	broken := io.MultiReader(strings.NewReader("a 1\n"), iotest.ErrReader(errors.New("reset")))
	if _, err := parse(broken); err == nil || err.Error() != "reset" {
		t.Errorf("error is %v", err)
	}
}

func writePEM(t *testing.T, dir, name, kind string, der []byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
