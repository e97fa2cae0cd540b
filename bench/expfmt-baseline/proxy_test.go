package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestAScrape(t *testing.T) {
	whole := podThatSays(t, "# TYPE a gauge\na 1\n")
	// More is promised than comes, and it ends where a line does.
	short := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "# TYPE a gauge\na 1\n")
	}))
	t.Cleanup(short.Close)
	proxy := proxyBefore(t, whole, short.Listener.Addr().String())
	for _, encoding := range []string{"", "gzip", "deflate, gzip;q=0.5", "gzip;q=0"} {
		response := get(proxy, "/metrics/etcd", encoding)
		compressed := response.Header().Get("Content-Encoding") == "gzip"
		if wanted := encoding == "gzip" || strings.HasSuffix(encoding, "0.5"); compressed != wanted {
			t.Errorf("%q: compressed is %v", encoding, compressed)
		}
		text := read(t, response, compressed)
		if got := strings.Count(text, "\na{pod=\"etcd-0\""); response.Code != 200 || got != 1 {
			t.Errorf("%q: %d %s", encoding, response.Code, text)
		}
		up := fmt.Sprintf("instance=%q} 1\nup{pod=\"etcd-1\"", whole)
		if !strings.Contains(text, up) || !strings.HasSuffix(text, "} 0\n") || strings.Contains(text, "\na{pod=\"etcd-1\"") {
			t.Errorf("%q: %s", encoding, text)
		}
	}
}

func TestPathsAndMethods(t *testing.T) {
	proxy := proxyBefore(t, podThatSays(t, "a 1\n"))
	for path, code := range map[string]int{
		"/metrics/etcd": 200, "/metrics/etcd/": 200, "/metrics/etcd?x=y": 200, "/healthz": 200,
		"/metrics/nonesuch": 404, "/metrics": 400, "/metrics/": 400, "/metrics/etcd/more": 400, "/": 400,
	} {
		if got := get(proxy, path, "").Code; got != code {
			t.Errorf("%s: %d, not %d", path, got, code)
		}
	}
	post := httptest.NewRecorder()
	proxy.ServeHTTP(post, httptest.NewRequest(http.MethodPost, "/metrics/etcd", nil))
	if post.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", post.Code)
	}
}

func TestTheScrapersTimeIsHeeded(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 10 * time.Second, "x": 10 * time.Second, "NaN": 10 * time.Second, "-1": 10 * time.Second, "1e300": 10 * time.Second,
		"30": 10 * time.Second, "10": 9500 * time.Millisecond, "1": 900 * time.Millisecond,
	} {
		headers := http.Header{}
		headers.Set(timeoutHeader, header)
		if got := budget(headers, 10*time.Second); got != want {
			t.Errorf("%q: %s, not %s", header, got, want)
		}
	}
}

func podThatSays(t *testing.T, body string) string {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func proxyBefore(t *testing.T, addresses ...string) *proxy {
	section := componentConfig{Scheme: "http", Path: "/metrics", Labels: testIdentity, Timeout: duration(time.Minute)}
	for number, address := range addresses {
		section.Targets = append(section.Targets, target{fmt.Sprintf("etcd-%d", number), address})
	}
	proxy, err := newProxy(&config{Components: map[string]componentConfig{"etcd": section}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return proxy
}

func get(proxy *proxy, path, encoding string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodGet, path, nil)
	request.Header.Set("Accept-Encoding", encoding)
	recorder := httptest.NewRecorder()
	proxy.ServeHTTP(recorder, request)
	return recorder
}

func read(t *testing.T, response *httptest.ResponseRecorder, compressed bool) string {
	var body io.Reader = response.Body
	if compressed {
		inflated, err := gzip.NewReader(body)
		if err != nil {
			t.Fatal(err)
		}
		body = inflated
	}
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
