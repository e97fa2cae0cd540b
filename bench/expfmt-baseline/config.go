package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// config is the whole configuration. Its component sections are Sluice's own, as far as they are known here, so that
// one text configures both:
//
//	{
//	  "listen": "127.0.0.1:0",
//	  "serving": {"certFile": "serving/tls.crt", "keyFile": "serving/tls.key"},
//	  "components": {
//	    "etcd": {
//	      "targets": [{"pod": "etcd-0", "address": "10.0.1.5:9979"}],
//	      "scheme": "https",
//	      "path": "/metrics",
//	      "tlsConfig": {"caFile": "ca.crt", "certFile": "tls.crt", "keyFile": "tls.key", "serverName": "etcd-client"},
//	      "labels": {"job": "etcd", "namespace": "openshift-etcd", "service": "etcd", "endpoint": "etcd-metrics"},
//	      "metricRelabelings": [{"action": "drop", "sourceLabels": ["__name__", "le"], "regex": "a_bucket;(1|2)"}],
//	      "timeout": "10s"
//	    }
//	  }
//	}
type config struct {
	// Listen is host:port; port 0 takes a free one.
	Listen string `json:"listen"`
	// Serving is nil for plain HTTP.
	Serving    *keyPair                   `json:"serving"`
	Components map[string]componentConfig `json:"components"`
}

type keyPair struct {
	CertFile string `json:"certFile"`
	KeyFile  string `json:"keyFile"`
}

type componentConfig struct {
	Targets           []target       `json:"targets"`
	Scheme            string         `json:"scheme"`
	Path              string         `json:"path"`
	TLSConfig         tlsConfig      `json:"tlsConfig"`
	Labels            identityLabels `json:"labels"`
	MetricRelabelings []relabeling   `json:"metricRelabelings"`
	Timeout           duration       `json:"timeout"`
}

type target struct {
	Pod     string `json:"pod"`
	Address string `json:"address"`
}

type tlsConfig struct {
	CAFile     string `json:"caFile"`
	CertFile   string `json:"certFile"`
	KeyFile    string `json:"keyFile"`
	ServerName string `json:"serverName"`
}

// identityLabels say what a component is; pod and instance come from each target.
type identityLabels struct {
	Job       string `json:"job"`
	Namespace string `json:"namespace"`
	Service   string `json:"service"`
	Endpoint  string `json:"endpoint"`
}

// relabeling has pointers where Prometheus' default is not the empty string.
type relabeling struct {
	Action       string   `json:"action"`
	SourceLabels []string `json:"sourceLabels"`
	Separator    *string  `json:"separator"`
	Regex        *string  `json:"regex"`
}

// duration is a time.Duration written as in "10s".
type duration time.Duration

func (d *duration) UnmarshalJSON(text []byte) error {
	var written string
	if err := json.Unmarshal(text, &written); err != nil {
		return err
	}
	parsed, err := time.ParseDuration(written)
	*d = duration(parsed)
	return err
}

// readConfig reads and completes a configuration. Paths in it are relative to the file's directory.
func readConfig(file string) (*config, error) {
	if file == "" {
		return nil, errors.New("--config is missing")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var c config
	if err := decoder.Decode(&c); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	c.complete(filepath.Dir(file))
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &c, nil
}

func (c *config) complete(dir string) {
	absolute := func(path *string) {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(dir, *path)
		}
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	if c.Serving != nil {
		absolute(&c.Serving.CertFile)
		absolute(&c.Serving.KeyFile)
	}
	for name, component := range c.Components {
		absolute(&component.TLSConfig.CAFile)
		absolute(&component.TLSConfig.CertFile)
		absolute(&component.TLSConfig.KeyFile)
		if component.Scheme == "" {
			component.Scheme = "https"
		}
		if component.Path == "" {
			component.Path = "/metrics"
		}
		if component.Timeout == 0 {
			component.Timeout = duration(10 * time.Second)
		}
		c.Components[name] = component
	}
}

func (c *config) check() error {
	for name, component := range c.Components {
		if component.Scheme != "http" && component.Scheme != "https" {
			return fmt.Errorf("component %q: scheme %q is neither http nor https", name, component.Scheme)
		}
		labels := component.Labels
		if labels.Job == "" || labels.Namespace == "" || labels.Service == "" || labels.Endpoint == "" {
			return fmt.Errorf("component %q: labels job, namespace, service and endpoint must all be given", name)
		}
		for _, target := range component.Targets {
			if _, _, err := net.SplitHostPort(target.Address); err != nil {
				return fmt.Errorf("component %q: pod %q: %w", name, target.Pod, err)
			}
		}
	}
	return nil
}
