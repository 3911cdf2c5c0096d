package main

import (
	"github.com/warmlog/warmlog"
	"github.com/warmlog/warmlog/pagecache"
)

// residencyJSON is what residency prints with --json. Sizes are bytes.
type residencyJSON struct {
	Host     hostJSON              `json:"host"`
	Prober   proberJSON            `json:"prober"`
	Segments []segmentResidentJSON `json:"segments"`
	Queues   []queueResidentJSON   `json:"queues"`
}

type hostJSON struct {
	RAM       int64   `json:"ram"`
	Limit     int64   `json:"limit"`
	Group     string  `json:"group"` // with the limit; empty: RAM is
	Source    string  `json:"source"`
	Used      *int64  `json:"used"`
	Cache     *int64  `json:"cache"`
	Note      *string `json:"note"`
	Threshold int64   `json:"threshold"`
}

// proberJSON is what may be believed of the oldest segment, and of others where that differs.
type proberJSON struct {
	Method   string        `json:"method"`
	Findings []findingJSON `json:"findings"`
	Others   []otherJSON   `json:"others,omitempty"`
}

type otherJSON struct {
	File     string        `json:"file"` // the first of those that are alike
	Method   string        `json:"method"`
	Findings []findingJSON `json:"findings"`
}

type findingJSON struct {
	Method   string  `json:"method"`
	Believed bool    `json:"believed"`
	Reason   *string `json:"reason"`
}

type segmentResidentJSON struct {
	File     string      `json:"file"`
	From     int64       `json:"from"` // physical offset
	To       int64       `json:"to"`   // likewise
	Bytes    int64       `json:"bytes"`
	Resident *int64      `json:"residentBytes"` // null: not known
	Runs     *[][2]int64 `json:"runs"`          // physical offsets
}

type queueResidentJSON struct {
	File     string      `json:"file"`
	Topic    string      `json:"topic"`
	Queue    int32       `json:"queue"`
	From     int64       `json:"from"` // queue offset
	To       int64       `json:"to"`   // likewise
	Bytes    int64       `json:"bytes"`
	Resident *int64      `json:"residentBytes"`
	Runs     *[][2]int64 `json:"runs"` // bytes of the file
}

func residencyLine(r *warmlog.ResidencyReport) residencyJSON {
	m := r.Memory
	line := residencyJSON{
		Host:     hostJSON{m.RAM, m.Limit, m.Group, m.Source, notNegative(m.Used), notNegative(m.Cache), notEmpty(m.Note), r.Threshold},
		Prober:   proberJSON{Method: pagecache.Method(0).String(), Findings: []findingJSON{}},
		Segments: []segmentResidentJSON{}, Queues: []queueResidentJSON{},
	}
	for i, p := range r.Probers {
		if method, found := p.Prober.Method().String(), findings(p.Prober); i == 0 {
			line.Prober.Method, line.Prober.Findings = method, found
		} else {
			line.Prober.Others = append(line.Prober.Others, otherJSON{p.File, method, found})
		}
	}
	for _, s := range r.Segments {
		resident, runs := inMemory(s.FileResidency)
		line.Segments = append(line.Segments, segmentResidentJSON{s.File, s.From, s.To, s.Bytes, resident, runs})
	}
	for _, q := range r.Queues {
		resident, runs := inMemory(q.FileResidency)
		line.Queues = append(line.Queues, queueResidentJSON{q.File, q.Topic, q.ID, q.From, q.To, q.Bytes, resident, runs})
	}
	return line
}

func findings(p *pagecache.Prober) []findingJSON {
	list := []findingJSON{}
	for _, f := range p.Findings() {
		j := findingJSON{Method: f.Method.String(), Believed: f.Believed}
		if f.Err != nil {
			j.Reason = notEmpty(f.Err.Error())
		}
		list = append(list, j)
	}
	return list
}

// inMemory returns what is in memory of a file, nil where that is not known.
func inMemory(f warmlog.FileResidency) (resident *int64, runs *[][2]int64) {
	if !f.Known {
		return nil, nil
	}
	list := append([][2]int64{}, f.Runs...)
	return &f.Resident, &list
}

// notNegative is nil for a number that is not known.
func notNegative(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}

func notEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
