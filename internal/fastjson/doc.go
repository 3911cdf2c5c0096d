// Package fastjson reads the JSON that RocketMQ writes: config/*.json and the bodies of
// some answers. It turns that text into standard JSON, which encoding/json reads, and does
// nothing more. It opens no file, keeps no state and starts no goroutine; everything in it
// may be called concurrently.
//
// # The dialect
//
// The writers are fastjson 1.2.69 (RocketMQ 4.9.7), 1.2.83 (5.3.3) and fastjson2 2.0.59
// (5.5.0). In what all of them write, one thing is not JSON: a map whose keys are integers
// has them without quotes.
//
//	written    {"offsetTable":{"T@g":{0:10,-1:20}}}
//	standard   {"offsetTable":{"T@g":{"0":10,"-1":20}}}
//	                                  ^ ^    ^  ^  the only bytes that are added
//
// Layout is none of our business: compact, tabs, and fastjson 1's pretty print, which puts
// such a map on one line and its closing brace on the next, are all white space.
//
// The readers accept more than any of them writes: names in single quotes or none,
// comments, a byte order mark, a comma before a closing brace, zero bytes at the end,
// 1.5 for an integer. No file from a broker or from the classes of these three releases has
// any of it, and accepting it would hide damage: here it is an error, as it is to
// encoding/json. So are keys of other types (true, 1.5, or a whole
// object, as in GET_CONSUME_STATS), which no configuration file has.
//
// # Bounds
//
// Time and memory grow with the length of the text, whatever stands in it: two passes
// without recursion here, and encoding/json's check, which refuses more than 10,000 levels
// of nesting.
package fastjson
