package pagecache

import (
	"errors"
	"math"
	"runtime"
	"testing"
)

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB",
		512 << 20: "512 MiB", 1<<20 - 1: "1 MiB", 1<<30 - 1: "1 GiB", 1023 << 20: "1023 MiB",
		25276211200: "23.5 GiB", math.MaxInt64: "8 EiB",
	} {
		if got := size(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestMemoryString(t *testing.T) {
	const gib, mib = 1 << 30, 1 << 20
	for want, m := range map[string]Memory{
		"512 MiB of 24 GiB (cgroup v1 /a/b), 120 MiB used, 80 MiB of it page cache": {
			RAM: 24 * gib, Limit: 512 * mib, Group: "cgroup v1 /a/b", Source: "cgroup v1 /m/a/b/memory.limit_in_bytes", Used: 120 * mib, Cache: 80 * mib},
		"1 GiB of 24 GiB (memory.high of cgroup v2 /a), 0 B used": {
			RAM: 24 * gib, Limit: gib, Group: "cgroup v2 /a", Source: "cgroup v2 /m/a/memory.high", Used: 0, Cache: -1},
		"24 GiB (RAM); something is wrong": {
			RAM: 24 * gib, Limit: 24 * gib, Source: "sysinfo", Used: -1, Cache: -1, Note: "something is wrong"},
	} {
		if got := m.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestReadMemory(t *testing.T) {
	m, err := ReadMemory(MemoryOptions{})
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%+v, %v", m, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Log(m)
	if m.RAM < 64<<20 || m.Limit < 0 || m.Limit > m.RAM || m.Source == "" || (m.Group == "") != (m.Limit == m.RAM) || m.Cache > m.Used {
		t.Errorf("%#v", m)
	}
	host, err := ReadMemory(MemoryOptions{HostOnly: true})
	if err != nil || host.RAM != m.RAM || host.Limit != m.RAM || host.Group != "" || host.Note != "" {
		t.Errorf("host only: %#v, %v", host, err)
	}
	if runtime.GOOS == "linux" && (host.Used <= 0 || host.Cache <= 0) {
		t.Errorf("use of the host: %v", host)
	}
}

func BenchmarkReadMemory(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ReadMemory(MemoryOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}
