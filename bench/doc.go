// Package bench holds the engine's benchmarks. Each measures its floor in the same run,
// in alternation with the engine, and reports the ratio of the medians as "x-floor": what
// the work costs without an engine around it. Machines differ; ratios travel.
//
// The package writes below its temporary directory only. See README.md for what each row
// means and how to compare runs.
package bench
