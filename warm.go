package warmlog

import (
	"github.com/warmlog/warmlog/getmessage"
	"github.com/warmlog/warmlog/pagecache"
)

// prober finds out how the kernel can be asked what is in memory.
func (s *Store) prober() *pagecache.Prober {
	o := pagecache.ProberOptions{Dir: s.paths.CommitLog(), Unnamed: true, Methods: s.options.Residency}
	if segments := s.log.Segments(); len(segments) > 0 {
		o.File = segments[0].Path()
	}
	p := pagecache.NewProber(o)
	if p.Method() == 0 && s.w != nil { // the file system may have no files without a name
		o.Dir, o.Unnamed = s.paths.Temp(), false
		p = pagecache.NewProber(o)
	}
	if p.Method() == 0 {
		s.options.Logger.Warn("nobody says what is in memory: pulls go by the distance", "methods", p.String())
	}
	return p
}

// Residency says how the kernel is asked what is in memory, and why it is believed or not.
func (s *Store) Residency() *pagecache.Prober { return s.cache.Prober() }

// stepWarm tells the log where it ends: what came lately is in memory.
func (s *Store) stepWarm() {
	if s.w != nil {
		if err := s.log.Step(s.w.appender.End()); err != nil {
			s.note("%v", err)
		}
	}
}

// Lanes returns where reads of what is not in memory take turns: their figures, and their rates,
// which can be changed at any time.
func (s *Store) Lanes() *getmessage.Lanes { return s.reader.Lanes }
