package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/common/expfmt"
)

const (
	// Bodies are megabytes, and with the default of 4 KiB each of these costs a system call.
	readBuffer = 64 << 10
	// Scrapers come in twos, and seldom more of them at once.
	idleConnectionsPerPod = 16
)

// component is one /metrics/<name>.
type component struct {
	name    string
	pods    []*pod
	client  *http.Client
	rules   *ruleSet
	timeout time.Duration
}

// pod is one target of a component.
type pod struct {
	url    string
	labels targetLabels
	// errorsTotal counts failed scrapes since the start.
	errorsTotal atomic.Uint64
}

// scraped is what came of one pod's scrape. Families are nil if it failed.
type scraped struct {
	families families
	err      error
}

func newComponent(name string, config componentConfig) (*component, error) {
	rules, err := newRuleSet(config.MetricRelabelings)
	if err != nil {
		return nil, fmt.Errorf("component %q: %w", name, err)
	}
	tlsConfig, err := clientTLS(config.TLSConfig)
	if err != nil {
		return nil, fmt.Errorf("component %q: %w", name, err)
	}
	transport := &http.Transport{
		DialContext:         (&net.Dialer{}).DialContext,
		TLSClientConfig:     tlsConfig,
		MaxIdleConnsPerHost: idleConnectionsPerPod,
		ReadBufferSize:      readBuffer,
		// Pods are near; to inflate costs more than to read.
		DisableCompression: true,
	}
	component := &component{name: name, rules: rules, timeout: time.Duration(config.Timeout)}
	component.client = &http.Client{Transport: transport}
	for _, target := range config.Targets {
		component.pods = append(component.pods, &pod{
			url:    config.Scheme + "://" + target.Address + config.Path,
			labels: newTargetLabels(target, config.Labels),
		})
	}
	return component, nil
}

func clientTLS(config tlsConfig) (*tls.Config, error) {
	client := &tls.Config{ServerName: config.ServerName, MinVersion: tls.VersionTLS12}
	if config.CAFile != "" {
		pem, err := os.ReadFile(config.CAFile)
		if err != nil {
			return nil, err
		}
		client.RootCAs = x509.NewCertPool()
		if !client.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no certificate in it", config.CAFile)
		}
	}
	if config.CertFile != "" {
		certificate, err := tls.LoadX509KeyPair(config.CertFile, config.KeyFile)
		if err != nil {
			return nil, err
		}
		client.Certificates = []tls.Certificate{certificate}
	}
	return client, nil
}

// scrape asks all pods at once. What it returns is in the order of c.pods.
func (c *component) scrape(ctx context.Context) []scraped {
	results := make([]scraped, len(c.pods))
	var group sync.WaitGroup
	for number, pod := range c.pods {
		number, pod := number, pod
		group.Add(1)
		go func() {
			defer group.Done()
			families, err := c.scrapePod(ctx, pod)
			if err != nil {
				pod.errorsTotal.Add(1)
				families = nil
			}
			results[number] = scraped{families, err}
		}()
	}
	group.Wait()
	return results
}

// scrapePod gives a pod's families, labelled and filtered.
func (c *component) scrapePod(ctx context.Context, pod *pod) (families, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, pod.url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4")
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", pod.url, response.Status)
	}
	parsed, err := parse(response.Body)
	if err != nil {
		return nil, fmt.Errorf("GET %s: %w", pod.url, err)
	}
	return c.process(parsed, pod), nil
}

// process labels and filters a pod's families.
func (c *component) process(parsed families, pod *pod) families {
	for name, family := range parsed {
		if isSynthetic(name) || !c.rules.mayKeep(family) {
			delete(parsed, name)
			continue
		}
		// Rules see the labels as they are in the end, so these come first.
		pod.labels.addTo(family.Metric)
		if !c.rules.filter(family) {
			delete(parsed, name)
		}
	}
	return parsed
}

var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, readBuffer) }}

// parse reads a body as it arrives.
func parse(body io.Reader) (families, error) {
	watched := &watchedReader{inner: body}
	// The parser takes a bufio.Reader as it is.
	buffered := readers.Get().(*bufio.Reader)
	buffered.Reset(watched)
	defer func() {
		buffered.Reset(nil)
		readers.Put(buffered)
	}()
	var parser expfmt.TextParser
	parsed, err := parser.TextToMetricFamilies(buffered)
	if watched.err != nil {
		return nil, watched.err
	}
	return parsed, err
}

// watchedReader remembers why reading ended: the parser takes an error at the start of a line for the end of the body.
type watchedReader struct {
	inner io.Reader
	err   error
}

func (r *watchedReader) Read(into []byte) (int, error) {
	n, err := r.inner.Read(into)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}
