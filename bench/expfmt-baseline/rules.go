package main

import (
	"fmt"
	"regexp"
	"sync"

	dto "github.com/prometheus/client_model/go"
)

const nameLabel = "__name__"

// Names are remembered up to so many, thirty times a large kube-apiserver's; those beyond are asked for anew.
const mostVerdicts = 1 << 15

// rule is one keep or drop of metric_relabel_configs.
type rule struct {
	keep      bool
	sources   []string
	separator string
	pattern   *regexp.Regexp
}

// verdict is what rules say about all series of one name.
type verdict int

const (
	keepAll verdict = iota
	dropAll
	// checkLabels: rules that look at other labels have to be asked for every series.
	checkLabels
)

// ruleSet is a component's rules, shared by all its scrapes.
type ruleSet struct {
	// byName look at __name__ alone. As rules only keep or drop, their order does not matter.
	byName   []rule
	byLabels []rule

	mutex    sync.RWMutex
	verdicts map[string]verdict
}

func newRuleSet(relabelings []relabeling) (*ruleSet, error) {
	set := &ruleSet{verdicts: make(map[string]verdict)}
	for number, relabeling := range relabelings {
		compiled, err := compileRule(relabeling)
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", number+1, err)
		}
		onlyName := true
		for _, source := range compiled.sources {
			onlyName = onlyName && source == nameLabel
		}
		if onlyName {
			set.byName = append(set.byName, compiled)
		} else {
			set.byLabels = append(set.byLabels, compiled)
		}
	}
	return set, nil
}

func compileRule(relabeling relabeling) (rule, error) {
	if relabeling.Action != "keep" && relabeling.Action != "drop" {
		return rule{}, fmt.Errorf("action %q is neither keep nor drop", relabeling.Action)
	}
	regex, separator := "(.*)", ";"
	if relabeling.Regex != nil {
		regex = *relabeling.Regex
	}
	if relabeling.Separator != nil {
		separator = *relabeling.Separator
	}
	pattern, err := regexp.Compile("^(?s:" + regex + ")$")
	if err != nil {
		return rule{}, err
	}
	return rule{relabeling.Action == "keep", relabeling.SourceLabels, separator, pattern}, nil
}

// isEmpty says that everything is kept.
func (s *ruleSet) isEmpty() bool {
	return len(s.byName) == 0 && len(s.byLabels) == 0
}

// of gives the verdict on a name.
func (s *ruleSet) of(name string) verdict {
	s.mutex.RLock()
	known, ok := s.verdicts[name]
	s.mutex.RUnlock()
	if ok {
		return known
	}
	found := s.judge(name)
	s.mutex.Lock()
	if len(s.verdicts) < mostVerdicts {
		s.verdicts[name] = found
	}
	s.mutex.Unlock()
	return found
}

func (s *ruleSet) judge(name string) verdict {
	named := series{name: name}
	for _, rule := range s.byName {
		if !named.passes(rule) {
			return dropAll
		}
	}
	if len(s.byLabels) > 0 {
		return checkLabels
	}
	return keepAll
}

// keeps asks the rules that look at labels.
func (s *ruleSet) keeps(series *series) bool {
	for _, rule := range s.byLabels {
		if !series.passes(rule) {
			return false
		}
	}
	return true
}

// series is one sample's labels, as rules see them.
type series struct {
	name   string
	labels []*dto.LabelPair
	// boundName is le or quantile with boundValue, which metric families keep apart; else empty.
	boundName, boundValue string
	// joined is reused from rule to rule and from series to series.
	joined []byte
}

func (s *series) passes(rule rule) bool {
	s.joined = s.joined[:0]
	for number, source := range rule.sources {
		if number > 0 {
			s.joined = append(s.joined, rule.separator...)
		}
		s.joined = append(s.joined, s.get(source)...)
	}
	return rule.pattern.Match(s.joined) == rule.keep
}

// get gives a label's value, empty if there is none.
func (s *series) get(name string) string {
	switch name {
	case nameLabel:
		return s.name
	case s.boundName:
		return s.boundValue
	}
	return find(s.labels, name).GetValue()
}
