package main

import (
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

var (
	testTarget   = target{Pod: "etcd-0", Address: "127.0.0.1:2379"}
	testIdentity = identityLabels{Job: "etcd", Namespace: "openshift-etcd", Service: "etcd-svc", Endpoint: "https"}
)

const testLabels = `pod="etcd-0",namespace="openshift-etcd",job="etcd",service="etcd-svc",endpoint="https",` +
	`instance="127.0.0.1:2379"`

func TestALabelOfTheSampleGivesWayToOurs(t *testing.T) {
	for own, want := range map[string]string{
		``:                                   ``,
		`zone="a"`:                           `zone="a"`,
		`pod="x"`:                            `exported_pod="x"`,
		`pod=""`:                             ``,
		`pod="x",exported_pod="y"`:           `exported_exported_pod="x",exported_pod="y"`,
		`pod="x",exported_pod=""`:            `exported_pod="x"`,
		`zone="a",job="b",namespace="c"`:     `zone="a",exported_job="b",exported_namespace="c"`,
		`exported_pod="y"`:                   `exported_pod="y"`,
		`instance="i",exported_instance="j"`: `exported_exported_instance="i",exported_instance="j"`,
	} {
		metric := &dto.Metric{Label: pairs(own)}
		newTargetLabels(testTarget, testIdentity).addTo([]*dto.Metric{metric})
		want = strings.TrimSuffix(testLabels+","+want, ",")
		if got := text(metric.Label); got != want {
			t.Errorf("{%s}:\n got %s\nwant %s", own, got, want)
		}
	}
}

func TestMetricsDoNotShareRoomForLabels(t *testing.T) {
	first, second := &dto.Metric{Label: pairs(`a="1"`)}, &dto.Metric{Label: pairs(`b="2"`)}
	newTargetLabels(testTarget, testIdentity).addTo([]*dto.Metric{first, second})
	_ = append(first.Label, labelPair("intruder", "x"))
	if got := text(second.Label); got != testLabels+`,b="2"` {
		t.Errorf("the second metric now has %s", got)
	}
}

// pairs reads labels whose values contain neither comma nor quote.
func pairs(labels string) []*dto.LabelPair {
	var pairs []*dto.LabelPair
	for _, label := range strings.Split(labels, ",") {
		if name, value, ok := strings.Cut(label, "="); ok {
			pairs = append(pairs, labelPair(name, strings.Trim(value, `"`)))
		}
	}
	return pairs
}

func text(pairs []*dto.LabelPair) string {
	var texts []string
	for _, pair := range pairs {
		texts = append(texts, pair.GetName()+`="`+pair.GetValue()+`"`)
	}
	return strings.Join(texts, ",")
}
