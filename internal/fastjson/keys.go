package fastjson

import "iter"

// keys yields [start, end) of every integer in front of a colon. Outside of strings a colon
// only ever follows a name, so such an integer is an unquoted name, or the text is no JSON
// with quotes around it either.
func keys(src []byte) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		for i := 0; i < len(src); {
			switch c := src[i]; {
			case c == '"':
				i = stringEnd(src, i)
			case c == '-' || isDigit(c):
				end := i + 1
				for end < len(src) && isDigit(src[end]) {
					end++
				}
				if isDigit(src[end-1]) && beforeColon(src, end) && !yield(i, end) {
					return
				}
				i = end
			default:
				i++
			}
		}
	}
}

// stringEnd returns the offset behind the string that begins at i, the end of the text if
// nothing closes it.
func stringEnd(src []byte, i int) int {
	for i++; i < len(src); i++ {
		switch src[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(src)
}

func beforeColon(src []byte, i int) bool {
	for ; i < len(src); i++ {
		switch src[i] {
		case ' ', '\t', '\n', '\r':
		case ':':
			return true
		default:
			return false
		}
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
