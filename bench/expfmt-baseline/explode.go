package main

import (
	"math"

	dto "github.com/prometheus/client_model/go"
)

// isWhole says whether the encoder writes all series of a family and no other. It always writes sum and count, and
// always a bucket +Inf: where rules dropped one of them, or the pod never had it, explode has to be used.
func isWhole(family *dto.MetricFamily) bool {
	switch family.GetType() {
	case dto.MetricType_HISTOGRAM:
		for _, metric := range family.Metric {
			histogram := metric.Histogram
			if histogram.SampleSum == nil || histogram.SampleCount == nil || !hasInfinity(histogram.Bucket) {
				return false
			}
		}
	case dto.MetricType_SUMMARY:
		for _, metric := range family.Metric {
			if metric.Summary.SampleSum == nil || metric.Summary.SampleCount == nil {
				return false
			}
		}
	}
	return true
}

func hasInfinity(buckets []*dto.Bucket) bool {
	// From the end, where it mostly is.
	for at := len(buckets) - 1; at >= 0; at-- {
		if math.IsInf(buckets[at].GetUpperBound(), 1) {
			return true
		}
	}
	return false
}

// explode makes untyped families of all series of a family, one for each series name. Only its type is lost, which
// Prometheus does not store with samples.
func explode(family *dto.MetricFamily) []*dto.MetricFamily {
	name := family.GetName()
	var exploded []*dto.MetricFamily
	untyped := func(name string) *dto.MetricFamily {
		single := &dto.MetricFamily{Name: &name, Help: family.Help, Type: dto.MetricType_UNTYPED.Enum()}
		exploded = append(exploded, single)
		return single
	}
	switch family.GetType() {
	case dto.MetricType_HISTOGRAM:
		bucket, sum, count := untyped(name+"_bucket"), untyped(name+"_sum"), untyped(name+"_count")
		bounds := bounds{name: "le"}
		for _, metric := range family.Metric {
			histogram := metric.Histogram
			for _, each := range histogram.Bucket {
				labels := bounds.addTo(metric.Label, each.GetUpperBound())
				addSeries(bucket, metric, labels, float64(each.GetCumulativeCount()))
			}
			addSumAndCount(sum, count, metric, histogram.SampleSum, histogram.SampleCount)
		}
	case dto.MetricType_SUMMARY:
		quantile, sum, count := untyped(name), untyped(name+"_sum"), untyped(name+"_count")
		bounds := bounds{name: "quantile"}
		for _, metric := range family.Metric {
			summary := metric.Summary
			for _, each := range summary.Quantile {
				labels := bounds.addTo(metric.Label, each.GetQuantile())
				addSeries(quantile, metric, labels, each.GetValue())
			}
			addSumAndCount(sum, count, metric, summary.SampleSum, summary.SampleCount)
		}
	default:
		scalar := untyped(name)
		for _, metric := range family.Metric {
			addSeries(scalar, metric, metric.Label, scalarValue(metric))
		}
	}
	present := exploded[:0]
	for _, single := range exploded {
		if len(single.Metric) > 0 {
			present = append(present, single)
		}
	}
	return present
}

func addSeries(family *dto.MetricFamily, from *dto.Metric, labels []*dto.LabelPair, value float64) {
	metric := &dto.Metric{Label: labels, Untyped: &dto.Untyped{Value: &value}, TimestampMs: from.TimestampMs}
	family.Metric = append(family.Metric, metric)
}

func addSumAndCount(sum, count *dto.MetricFamily, metric *dto.Metric, sampleSum *float64, sampleCount *uint64) {
	if sampleSum != nil {
		addSeries(sum, metric, metric.Label, *sampleSum)
	}
	if sampleCount != nil {
		addSeries(count, metric, metric.Label, float64(*sampleCount))
	}
}

func scalarValue(metric *dto.Metric) float64 {
	switch {
	case metric.Counter != nil:
		return metric.Counter.GetValue()
	case metric.Gauge != nil:
		return metric.Gauge.GetValue()
	default:
		return metric.Untyped.GetValue()
	}
}

// bounds are the label pairs of le or quantile; all metrics of a family have the same few.
type bounds struct {
	name  string
	pairs map[float64]*dto.LabelPair
}

func (b *bounds) addTo(labels []*dto.LabelPair, bound float64) []*dto.LabelPair {
	pair, ok := b.pairs[bound]
	if !ok {
		pair = labelPair(b.name, formatBound(bound))
		if b.pairs == nil {
			b.pairs = make(map[float64]*dto.LabelPair)
		}
		b.pairs[bound] = pair
	}
	all := make([]*dto.LabelPair, 0, len(labels)+1)
	return append(append(all, labels...), pair)
}
