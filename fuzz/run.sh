#!/bin/sh
# run.sh [TIME] [TARGET...]: fuzzes each target for a time (30s) or a number of executions
# (1000000x), all by default, and ends with the first that fails. Its input is then in
# testdata/fuzz. PARALLEL is the number of workers (2).
set -eu
cd "$(dirname "$0")/.."
time=${1:-30s}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- $(go test -list '^Fuzz' ./fuzz | grep '^Fuzz')
# Stores are written again and again: in memory where that is possible.
if [ -z "${TMPDIR:-}" ] && [ -d /dev/shm ] && [ -w /dev/shm ]; then
	export TMPDIR=/dev/shm
fi
for target in "$@"; do
	echo "== $target $time"
	go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 200x -parallel "${PARALLEL:-2}" ./fuzz
done
