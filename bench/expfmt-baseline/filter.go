package main

import (
	"math"
	"strconv"

	dto "github.com/prometheus/client_model/go"
)

// filter removes the series that rules drop, and says whether any is left. Rules are about series, not families: of a
// histogram they may drop some buckets, or all but its sum. What is dropped of a metric is nil in it then, or gone from
// its list; see isWhole and explode for how such a metric is written.
func (s *ruleSet) filter(family *dto.MetricFamily) bool {
	if s.isEmpty() {
		return true
	}
	name := family.GetName()
	kept := family.Metric[:0]
	switch family.GetType() {
	case dto.MetricType_HISTOGRAM:
		bucket, sum, count := s.part(name+"_bucket"), s.part(name+"_sum"), s.part(name+"_count")
		for _, metric := range family.Metric {
			if filterHistogram(metric, bucket, sum, count) {
				kept = append(kept, metric)
			}
		}
	case dto.MetricType_SUMMARY:
		quantile, sum, count := s.part(name), s.part(name+"_sum"), s.part(name+"_count")
		for _, metric := range family.Metric {
			if filterSummary(metric, quantile, sum, count) {
				kept = append(kept, metric)
			}
		}
	default:
		scalar := s.part(name)
		if scalar.verdict == keepAll {
			return true
		}
		for _, metric := range family.Metric {
			if scalar.keeps(metric.Label) {
				kept = append(kept, metric)
			}
		}
	}
	family.Metric = kept
	return len(kept) > 0
}

// mayKeep is false where names alone decide that nothing of a family is kept.
func (s *ruleSet) mayKeep(family *dto.MetricFamily) bool {
	if s.isEmpty() {
		return true
	}
	name := family.GetName()
	switch family.GetType() {
	case dto.MetricType_HISTOGRAM:
		return s.of(name+"_bucket") != dropAll || s.of(name+"_sum") != dropAll || s.of(name+"_count") != dropAll
	case dto.MetricType_SUMMARY:
		return s.of(name) != dropAll || s.of(name+"_sum") != dropAll || s.of(name+"_count") != dropAll
	default:
		return s.of(name) != dropAll
	}
}

func filterHistogram(metric *dto.Metric, bucket, sum, count *part) bool {
	histogram := metric.Histogram
	if bucket.verdict != keepAll {
		kept := histogram.Bucket[:0]
		for _, each := range histogram.Bucket {
			if bucket.keepsBound(metric.Label, "le", each.GetUpperBound()) {
				kept = append(kept, each)
			}
		}
		histogram.Bucket = kept
	}
	if !sum.keeps(metric.Label) {
		histogram.SampleSum = nil
	}
	if !count.keeps(metric.Label) {
		histogram.SampleCount = nil
	}
	return len(histogram.Bucket) > 0 || histogram.SampleSum != nil || histogram.SampleCount != nil
}

func filterSummary(metric *dto.Metric, quantile, sum, count *part) bool {
	summary := metric.Summary
	if quantile.verdict != keepAll {
		kept := summary.Quantile[:0]
		for _, each := range summary.Quantile {
			if quantile.keepsBound(metric.Label, "quantile", each.GetQuantile()) {
				kept = append(kept, each)
			}
		}
		summary.Quantile = kept
	}
	if !sum.keeps(metric.Label) {
		summary.SampleSum = nil
	}
	if !count.keeps(metric.Label) {
		summary.SampleCount = nil
	}
	return len(summary.Quantile) > 0 || summary.SampleSum != nil || summary.SampleCount != nil
}

// part is all series of one name in one pod's body, and what the rules say about them.
type part struct {
	rules   *ruleSet
	verdict verdict
	series  series
}

func (s *ruleSet) part(name string) *part {
	return &part{rules: s, verdict: s.of(name), series: series{name: name}}
}

func (p *part) keeps(labels []*dto.LabelPair) bool {
	if p.verdict != checkLabels {
		return p.verdict == keepAll
	}
	p.series.labels = labels
	return p.rules.keeps(&p.series)
}

func (p *part) keepsBound(labels []*dto.LabelPair, name string, bound float64) bool {
	if p.verdict != checkLabels {
		return p.verdict == keepAll
	}
	p.series.boundName, p.series.boundValue = name, formatBound(bound)
	return p.keeps(labels)
}

// formatBound writes le and quantile as expfmt does.
func formatBound(bound float64) string {
	if math.IsInf(bound, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(bound, 'g', -1, 64)
}
