package main

import (
	dto "github.com/prometheus/client_model/go"
)

const (
	errorsName = "metrics_aggregator_pod_scrape_errors_total"
	errorsHelp = "Total number of pod scrape errors per component and pod."
	upName     = "up"
	upHelp     = "1 if the pod was scraped successfully, 0 if the scrape failed."
)

// isSynthetic says whether series of this name are ours to write, and hence not a pod's.
func isSynthetic(name string) bool {
	return name == errorsName || name == upName
}

// synthetic are the families that say how each pod's scrape went, as seen by this proxy.
func (c *component) synthetic(results []scraped, proxyName string) []*dto.MetricFamily {
	errorsFamily := newFamily(errorsName, errorsHelp, dto.MetricType_COUNTER)
	up := newFamily(upName, upHelp, dto.MetricType_GAUGE)
	source := []*dto.LabelPair{labelPair("component", c.name), labelPair("proxy", proxyName)}
	for number, pod := range c.pods {
		total := float64(pod.errorsTotal.Load())
		labels := append(append([]*dto.LabelPair{}, pod.labels...), source...)
		errorsFamily.Metric = append(errorsFamily.Metric, &dto.Metric{Label: labels, Counter: &dto.Counter{Value: &total}})
		alive := 0.0
		if results[number].err == nil {
			alive = 1
		}
		up.Metric = append(up.Metric, &dto.Metric{Label: pod.labels, Gauge: &dto.Gauge{Value: &alive}})
	}
	return []*dto.MetricFamily{errorsFamily, up}
}

func newFamily(name, help string, kind dto.MetricType) *dto.MetricFamily {
	return &dto.MetricFamily{Name: &name, Help: &help, Type: kind.Enum()}
}
