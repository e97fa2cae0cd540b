package main

import (
	"sort"
	"strings"
	"testing"
)

const body = `# TYPE h histogram
h_bucket{verb="GET",le="0.5"} 1
h_bucket{verb="GET",le="1"} 2
h_bucket{verb="GET",le="+Inf"} 3
h_sum{verb="GET"} 4.5
h_count{verb="GET"} 3
h_bucket{verb="PUT",le="+Inf"} 7
h_sum{verb="PUT"} 8
h_count{verb="PUT"} 7
# TYPE s summary
s{quantile="0.5"} 1
s{quantile="0.9"} 2
s_sum 3
s_count 4
# TYPE c counter
c{namespace="x"} 1
c{namespace="y"} 2
`

func TestRulesAreAboutSeries(t *testing.T) {
	all := names(body)
	for _, test := range []struct {
		name  string
		rules []relabeling
		want  string
	}{
		{"none", nil, all},
		{"a family's name is not a series' name",
			[]relabeling{on("drop", "h", "__name__")}, all},
		{"one series of a histogram", []relabeling{on("keep", "h_bucket", "__name__")},
			`h_bucket{GET,0.5} h_bucket{GET,1} h_bucket{GET,+Inf} h_bucket{PUT,+Inf}`},
		{"a bucket", []relabeling{on("drop", "h_bucket;0.5", "__name__", "le"), on("keep", "h_.*", "__name__")},
			`h_bucket{GET,1} h_bucket{GET,+Inf} h_bucket{PUT,+Inf} h_sum{GET} h_sum{PUT} h_count{GET} h_count{PUT}`},
		{"the last bucket, of some", []relabeling{on("drop", "h_bucket;PUT", "__name__", "verb"), on("keep", "h_.*", "__name__")},
			`h_bucket{GET,0.5} h_bucket{GET,1} h_bucket{GET,+Inf} h_sum{GET} h_sum{PUT} h_count{GET} h_count{PUT}`},
		{"quantiles", []relabeling{on("drop", "s;0.9", "__name__", "quantile"), on("keep", "s.*", "__name__")},
			`s{0.5} s_sum{} s_count{}`},
		{"without quantiles", []relabeling{on("keep", "s_sum", "__name__")}, `s_sum{}`},
		{"labels as they are in the end",
			[]relabeling{on("keep", "c;openshift-etcd;y", "__name__", "namespace", "exported_namespace")}, `c{y}`},
		{"anchored", []relabeling{on("keep", "s_su|_count", "__name__")}, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			rules, err := newRuleSet(test.rules)
			if err != nil {
				t.Fatal(err)
			}
			component := &component{rules: rules}
			got := names(written(t, merge([]families{component.process(parsed(t, body), testPod())})))
			if sorted(got) != sorted(test.want) {
				t.Errorf("\n got %s\nwant %s", sorted(got), sorted(test.want))
			}
		})
	}
}

func TestARuleThatCannotBeUsedIsAnError(t *testing.T) {
	for _, bad := range []relabeling{on("replace", "a", "__name__"), on("keep", "(", "__name__")} {
		if _, err := newRuleSet([]relabeling{bad}); err == nil || !strings.HasPrefix(err.Error(), "rule 1: ") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func on(action, regex string, sources ...string) relabeling {
	return relabeling{Action: action, SourceLabels: sources, Regex: &regex}
}

// names lists the series of a text, each as its name and the values of its labels that are not ours.
func names(text string) string {
	var names []string
	for _, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		series := line[:strings.LastIndexByte(line, ' ')]
		name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
		labels = strings.TrimPrefix(strings.TrimPrefix(labels, testLabels), ",")
		var values []string
		for _, pair := range pairs(labels) {
			values = append(values, pair.GetValue())
		}
		names = append(names, name+"{"+strings.Join(values, ",")+"}")
	}
	return strings.Join(names, " ")
}

func sorted(names string) string {
	list := strings.Fields(names)
	sort.Strings(list)
	return strings.Join(list, " ")
}
