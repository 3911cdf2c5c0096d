//go:build !race

package warmlog_test

const raceDetector = false
