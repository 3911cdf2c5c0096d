// Package planted has bugs for tests that prove that tests find them. Without the build tag
// "planted" all are constants, false, and the compiler leaves nothing of them.
package planted
