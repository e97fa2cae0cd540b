package main

import (
	"sort"

	dto "github.com/prometheus/client_model/go"
)

// families are metric families by name, each with at least one metric.
type families map[string]*dto.MetricFamily

// merge makes one list of all pods' families, sorted by name and each name once, so that the text is valid. The pods'
// families are used up.
func merge(pods []families) []*dto.MetricFamily {
	partsByName := make(map[string][]*dto.MetricFamily)
	for _, pod := range pods {
		for name, part := range pod {
			partsByName[name] = append(partsByName[name], part)
		}
	}
	merged := make(families, len(partsByName))
	for _, parts := range partsByName {
		if family := join(parts); family != nil && isWhole(family) {
			merged.add(family)
			continue
		}
		for _, part := range parts {
			merged.addExploded(part)
		}
	}
	sorted := make([]*dto.MetricFamily, 0, len(merged))
	for _, family := range merged {
		sorted = append(sorted, family)
	}
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].GetName() < sorted[j].GetName() })
	return sorted
}

// join makes one family of a name's parts; nil if pods do not agree on its type.
func join(parts []*dto.MetricFamily) *dto.MetricFamily {
	first := parts[0]
	if len(parts) == 1 {
		return first
	}
	total := 0
	for _, part := range parts {
		if part.GetType() != first.GetType() {
			return nil
		}
		total += len(part.Metric)
	}
	joined := &dto.MetricFamily{Name: first.Name, Help: first.Help, Type: first.Type}
	joined.Metric = make([]*dto.Metric, 0, total)
	for _, part := range parts {
		if joined.Help == nil {
			joined.Help = part.Help
		}
		joined.Metric = append(joined.Metric, part.Metric...)
	}
	return joined
}

// add puts a family beside the others. One that is there under this name takes it in if both have one type; if not,
// there is no type that fits both.
func (f families) add(family *dto.MetricFamily) {
	name := family.GetName()
	existing, ok := f[name]
	switch {
	case !ok:
		f[name] = family
	case existing.GetType() == family.GetType():
		existing.Metric = append(existing.Metric, family.Metric...)
	default:
		delete(f, name)
		f.addExploded(existing)
		f.addExploded(family)
	}
}

func (f families) addExploded(family *dto.MetricFamily) {
	for _, single := range explode(family) {
		f.add(single)
	}
}
