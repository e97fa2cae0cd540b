// Command expfmt-baseline does Sluice's job the way it is usually done: every body is parsed with expfmt into metric
// families, labelled, filtered, merged and encoded again. It exists to be measured beside Sluice.
//
// It is written to be as good as that way allows: pods are scraped in parallel over kept-alive connections, bodies are
// parsed while they arrive, rules are compiled once and asked once for each name, label pairs are shared, buffers and
// gzip writers are pooled. Where it does less than Sluice, that favours it: there is no authentication, no discovery of
// pods, no bound on a body's size, no check of lines beyond what expfmt checks, and certificates are read once.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	_ "net/http/pprof" // Registers with http.DefaultServeMux, which only --pprof serves.
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// What the shipped proxy has: a scraper that is slower than this is gone.
const (
	headerTimeout   = 10 * time.Second
	idleTimeout     = 120 * time.Second
	shutdownTimeout = 5 * time.Second
)

// libraries is what build.sh links, for --version.
var libraries = "unknown libraries"

func main() {
	log.SetFlags(log.LstdFlags | log.Lmsgprefix)
	log.SetPrefix("expfmt-baseline: ")
	configFile := flag.String("config", "", "the configuration, a JSON `file`")
	gzipLevel := flag.Int("gzip-level", 1, "how hard to compress for scrapers that accept gzip, 1 to 9")
	pprofAddress := flag.String("pprof", "", "serve net/http/pprof at this `address`")
	version := flag.Bool("version", false, "say what this was built with")
	flag.Parse()
	if *version {
		fmt.Printf("expfmt-baseline: %s, %s\n", runtime.Version(), libraries)
		return
	}
	if err := run(*configFile, *gzipLevel, *pprofAddress); err != nil {
		log.Fatal(err)
	}
}

// run serves until SIGINT or SIGTERM.
func run(configFile string, gzipLevel int, pprofAddress string) error {
	config, err := readConfig(configFile)
	if err != nil {
		return err
	}
	proxy, err := newProxy(config, gzipLevel)
	if err != nil {
		return err
	}
	if pprofAddress != "" {
		if err := servePprof(pprofAddress); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", config.Listen)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           proxy,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
	}
	ended := make(chan error, 1)
	if config.Serving == nil {
		go func() { ended <- server.Serve(listener) }()
	} else {
		// Loaded before we say that we listen, so that a bad file is an error at start.
		certificate, err := tls.LoadX509KeyPair(config.Serving.CertFile, config.Serving.KeyFile)
		if err != nil {
			return fmt.Errorf("serving: %w", err)
		}
		// ServeTLS adds h2 to what is negotiated.
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
		go func() { ended <- server.ServeTLS(listener, "", "") }()
	}
	fmt.Printf("{\"listening\":%q}\n", listener.Addr())

	stop, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	select {
	case err := <-ended:
		return err
	case <-stop.Done():
	}
	grace, cancelGrace := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancelGrace()
	if err := server.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

func servePprof(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("pprof: %w", err)
	}
	log.Printf("pprof at http://%s/debug/pprof/", listener.Addr())
	go func() { log.Print(http.Serve(listener, nil)) }()
	return nil
}
