package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"

	dto "github.com/prometheus/client_model/go"
)

func TestPodsBecomeOneTextWithEachFamilyOnce(t *testing.T) {
	got := written(t, merge([]families{
		parsed(t, "# TYPE b gauge\nb{p=\"1\"} 1\n# TYPE a counter\na{p=\"1\"} 1\n"),
		parsed(t, "# HELP b Late help.\n# TYPE b gauge\nb{p=\"2\"} 2.5 1000\n# TYPE c gauge\nc NaN\n"),
	}))
	want := "# TYPE a counter\na{p=\"1\"} 1\n# HELP b Late help.\n# TYPE b gauge\nb{p=\"1\"} 1\nb{p=\"2\"} 2.5 1000\n" +
		"# TYPE c gauge\nc NaN\n"
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestPodsThatDoNotAgreeOnATypeKeepTheirSeries(t *testing.T) {
	got := written(t, merge([]families{
		parsed(t, "# TYPE a counter\na{p=\"1\"} 1\n"),
		parsed(t, "# TYPE a gauge\na{p=\"2\"} 2\n"),
		parsed(t, "# TYPE a summary\na{p=\"3\",quantile=\"0.5\"} 3\na_sum{p=\"3\"} 4\na_count{p=\"3\"} 5\n"),
	}))
	want := "# TYPE a untyped\na{p=\"1\"} 1\na{p=\"2\"} 2\na{p=\"3\",quantile=\"0.5\"} 3\n" +
		"# TYPE a_count untyped\na_count{p=\"3\"} 5\n# TYPE a_sum untyped\na_sum{p=\"3\"} 4\n"
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestAHistogramThatIsNotWholeInOnePodIsSeriesInAll(t *testing.T) {
	got := written(t, merge([]families{
		parsed(t, "# TYPE h histogram\nh_bucket{le=\"+Inf\"} 1\nh_sum 1\nh_count 1\n"),
		parsed(t, "# TYPE h histogram\nh_bucket{p=\"2\",le=\"1\"} 1\nh_sum{p=\"2\"} 1\n"),
	}))
	want := "# TYPE h_bucket untyped\nh_bucket{le=\"+Inf\"} 1\nh_bucket{p=\"2\",le=\"1\"} 1\n" +
		"# TYPE h_count untyped\nh_count 1\n# TYPE h_sum untyped\nh_sum 1\nh_sum{p=\"2\"} 1\n"
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestHowEachPodDidIsSaidBehindTheRest(t *testing.T) {
	component := &component{name: "etcd", pods: []*pod{testPod(), testPod()}}
	component.pods[1].errorsTotal.Store(3)
	results := []scraped{{}, {err: errors.New("gone")}}
	got := written(t, component.synthetic(results, "sluice-0"))
	source := `,component="etcd",proxy="sluice-0"`
	want := "# HELP " + errorsName + " Total number of pod scrape errors per component and pod.\n" +
		"# TYPE " + errorsName + " counter\n" +
		errorsName + "{" + testLabels + source + "} 0\n" + errorsName + "{" + testLabels + source + "} 3\n" +
		"# HELP up 1 if the pod was scraped successfully, 0 if the scrape failed.\n# TYPE up gauge\n" +
		"up{" + testLabels + "} 1\nup{" + testLabels + "} 0\n"
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func testPod() *pod {
	return &pod{labels: newTargetLabels(testTarget, testIdentity)}
}

func parsed(t *testing.T, body string) families {
	t.Helper()
	parsed, err := parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func written(t *testing.T, all []*dto.MetricFamily) string {
	t.Helper()
	var text strings.Builder
	for _, family := range all {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}
