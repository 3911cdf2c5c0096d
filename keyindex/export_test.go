package keyindex

// SetHook sets what is called before n bytes are stored, or with 0 before a name is
// changed or a file synced. An error is that of the write, after as many bytes as it says.
func (w *Writer) SetHook(f func(n int) (int, error)) { w.hook = f }

// Kill ends the writer as the end of its process would.
func (w *Writer) Kill() {
	w.closeFiles()
	w.err = errWriterClosed
}
