package main

import (
	"sort"

	dto "github.com/prometheus/client_model/go"
)

const exportedPrefix = "exported_"

// targetLabels are the six labels that a standalone cluster's Prometheus would have given to a pod's series. Their pairs
// are shared by all of its metrics.
type targetLabels []*dto.LabelPair

func newTargetLabels(target target, identity identityLabels) targetLabels {
	return targetLabels{
		labelPair("pod", target.Pod),
		labelPair("namespace", identity.Namespace),
		labelPair("job", identity.Job),
		labelPair("service", identity.Service),
		labelPair("endpoint", identity.Endpoint),
		labelPair("instance", target.Address),
	}
}

func labelPair(name, value string) *dto.LabelPair {
	return &dto.LabelPair{Name: &name, Value: &value}
}

// isTargetLabel says whether newTargetLabels gives a label of this name.
func isTargetLabel(name string) bool {
	switch name {
	case "pod", "namespace", "job", "service", "endpoint", "instance":
		return true
	}
	return false
}

// addTo puts the labels before those of every metric.
func (t targetLabels) addTo(metrics []*dto.Metric) {
	total := 0
	for _, metric := range metrics {
		total += len(t) + len(metric.Label)
	}
	// One allocation for all slices of a family.
	room := make([]*dto.LabelPair, 0, total)
	for _, metric := range metrics {
		start := len(room)
		room = append(room, t...)
		room = append(room, t.resolve(metric.Label)...)
		metric.Label = room[start:len(room):len(room)]
	}
}

// resolve renames labels that have the name of one of ours, as Prometheus does where honor_labels is false
// (resolveConflictingExposedLabels in its scrape package). An empty label is the same as none and gives way.
func (t targetLabels) resolve(own []*dto.LabelPair) []*dto.LabelPair {
	var conflicts []*dto.LabelPair
	for _, pair := range own {
		if isTargetLabel(pair.GetName()) {
			conflicts = append(conflicts, pair)
		}
	}
	if len(conflicts) == 0 {
		return own
	}
	// Shorter names first: what they become may be in the way of longer ones.
	sort.SliceStable(conflicts, func(i, j int) bool {
		return len(conflicts[i].GetName()) < len(conflicts[j].GetName())
	})
	for _, pair := range conflicts {
		if pair.GetValue() == "" {
			own = without(own, pair)
			continue
		}
		name := exportedPrefix + pair.GetName()
		for {
			other := find(own, name)
			if other != nil && other.GetValue() == "" {
				own = without(own, other)
				other = nil
			}
			if other == nil && !isTargetLabel(name) {
				break
			}
			name = exportedPrefix + name
		}
		pair.Name = &name
	}
	return own
}

func find(pairs []*dto.LabelPair, name string) *dto.LabelPair {
	for _, pair := range pairs {
		if pair.GetName() == name {
			return pair
		}
	}
	return nil
}

func without(pairs []*dto.LabelPair, gone *dto.LabelPair) []*dto.LabelPair {
	kept := pairs[:0]
	for _, pair := range pairs {
		if pair != gone {
			kept = append(kept, pair)
		}
	}
	return kept
}
