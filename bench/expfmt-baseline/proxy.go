package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"

	dto "github.com/prometheus/client_model/go"
)

const (
	timeoutHeader = "X-Prometheus-Scrape-Timeout-Seconds"
	// A tenth of the scraper's time, at most half a second, is kept for the way back.
	reserveShare = 10
	reserveMost  = 500 * time.Millisecond
	// Four TLS records at once.
	writeBuffer = 64 << 10
)

// proxy serves /metrics/<component>.
type proxy struct {
	// name goes into the error counter's label, since every replica counts for itself.
	name       string
	components map[string]*component
	gzips      sync.Pool
	writers    sync.Pool
}

func newProxy(config *config, gzipLevel int) (*proxy, error) {
	if gzipLevel < gzip.BestSpeed || gzipLevel > gzip.BestCompression {
		return nil, fmt.Errorf("--gzip-level %d is not between 1 and 9", gzipLevel)
	}
	name := os.Getenv("POD_NAME")
	if name == "" {
		name, _ = os.Hostname()
	}
	p := &proxy{name: name, components: make(map[string]*component)}
	p.gzips.New = func() any {
		// The level was checked above, and is all that can be wrong.
		writer, _ := gzip.NewWriterLevel(nil, gzipLevel)
		return writer
	}
	p.writers.New = func() any { return bufio.NewWriterSize(nil, writeBuffer) }
	for name, section := range config.Components {
		component, err := newComponent(name, section)
		if err != nil {
			return nil, err
		}
		p.components[name] = component
	}
	return p, nil
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, isMetrics := cutPrefix(r.URL.EscapedPath(), "/metrics/")
	name = strings.TrimSuffix(name, "/")
	switch {
	case r.URL.Path == "/healthz":
		return
	case !isMetrics || name == "" || strings.Contains(name, "/"):
		http.Error(w, "the path is /metrics/<component>", http.StatusBadRequest)
		return
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	}
	component, ok := p.components[name]
	if !ok {
		http.Error(w, "no such component", http.StatusNotFound)
		return
	}
	if len(component.pods) == 0 {
		http.Error(w, "no pods", http.StatusBadGateway)
		return
	}
	if err := p.serve(w, r, component); err != nil {
		// The head is out: all that is left is to let the scraper see that this is not the whole.
		log.Printf("%s: %v", name, err)
		panic(http.ErrAbortHandler)
	}
}

func (p *proxy) serve(w http.ResponseWriter, r *http.Request, component *component) error {
	ctx, cancel := context.WithTimeout(r.Context(), budget(r.Header, component.timeout))
	defer cancel()
	results := component.scrape(ctx)
	var pods []families
	for _, result := range results {
		if result.err != nil {
			log.Printf("%s: %v", component.name, result.err)
			continue
		}
		pods = append(pods, result.families)
	}
	all := append(merge(pods), component.synthetic(results, p.name)...)

	w.Header().Set("Content-Type", string(expfmt.FmtText))
	w.Header().Set("Vary", "Accept-Encoding")
	if !acceptsGzip(r.Header) {
		return p.encode(w, all)
	}
	w.Header().Set("Content-Encoding", "gzip")
	compressed := p.gzips.Get().(*gzip.Writer)
	defer p.gzips.Put(compressed)
	compressed.Reset(w)
	if err := p.encode(compressed, all); err != nil {
		return err
	}
	return compressed.Close()
}

func (p *proxy) encode(w io.Writer, all []*dto.MetricFamily) error {
	buffered := p.writers.Get().(*bufio.Writer)
	buffered.Reset(w)
	defer func() {
		buffered.Reset(nil)
		p.writers.Put(buffered)
	}()
	encoder := expfmt.NewEncoder(buffered, expfmt.FmtText)
	for number, family := range all {
		if err := encoder.Encode(family); err != nil {
			return err
		}
		// What is written need not live until the end.
		all[number] = nil
	}
	return buffered.Flush()
}

// budget is the time that pods have: what the scraper's header says, less the reserve, and never more than most.
func budget(header http.Header, most time.Duration) time.Duration {
	seconds, err := strconv.ParseFloat(header.Get(timeoutHeader), 64)
	// A header that makes no sense is none, NaN and what overflows a Duration too.
	if err != nil || !(seconds > 0 && seconds < most.Seconds()*2) {
		return most
	}
	asked := time.Duration(seconds * float64(time.Second))
	reserve := asked / reserveShare
	if reserve > reserveMost {
		reserve = reserveMost
	}
	if asked-reserve < most {
		return asked - reserve
	}
	return most
}

func acceptsGzip(header http.Header) bool {
	for _, accepted := range strings.Split(header.Get("Accept-Encoding"), ",") {
		coding, parameters, _ := strings.Cut(accepted, ";")
		if strings.TrimSpace(coding) != "gzip" {
			continue
		}
		quality, isQuality := cutPrefix(strings.ReplaceAll(parameters, " ", ""), "q=")
		weight, err := strconv.ParseFloat(quality, 64)
		return !isQuality || err != nil || weight > 0
	}
	return false
}

// cutPrefix is strings.CutPrefix, which Debian's Go does not have yet.
func cutPrefix(text, prefix string) (string, bool) {
	return strings.TrimPrefix(text, prefix), strings.HasPrefix(text, prefix)
}
