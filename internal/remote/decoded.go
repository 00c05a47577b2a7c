package remote

import (
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// decodedFactor limits the estimate of the memory that a response uses when it is decoded, as a multiple of the limit of its bytes.
	decodedFactor = 8
	// pagesFactor is the same for lists that are read in pages: large lists of pods use about as much.
	pagesFactor = 4
	// listItem and nestedItem are the memory of an element of a list, and of an element of another array, whatever JSON has there: the decoder makes the object
	// before it finds a value of another type. An object without any field has two bytes in JSON, and more than 1 KiB as a Pod. field is the memory of a field of an
	// object, which may be an entry of a map, and nested that of an object or array in a field.
	listItem, nestedItem, field, nested = 2 << 10, 512, 96, 128
	// deepest is the nesting that decoders accept.
	deepest = 10_000
)

// otherEncodings are the types that a client of Kubernetes decodes besides JSON. The memory that they need is not known before they are decoded.
var otherEncodings = []string{runtime.ContentTypeProtobuf, runtime.ContentTypeYAML, runtime.ContentTypeCBOR, runtime.ContentTypeCBORSequence}

// requestJSON returns req without the types of responses that are not JSON.
func requestJSON(req *http.Request) *http.Request {
	accepted := strings.Split(strings.Join(req.Header.Values("Accept"), ","), ",")
	kept := slices.DeleteFunc(slices.Clone(accepted), func(one string) bool {
		kind, _, _ := mime.ParseMediaType(one)
		return slices.Contains(otherEncodings, kind)
	})
	if len(kept) == len(accepted) {
		return req
	}
	req = req.Clone(req.Context())
	req.Header.Set("Accept", strings.Join(append(kept, runtime.ContentTypeJSON), ","))
	return req
}

// isJSON reports whether a response is decoded as JSON. Others, such as a log, must not be decoded: it returns an error for the other encodings.
func isJSON(response *http.Response) (bool, error) {
	if response.Header.Get("Content-Type") == "" { // the client would assume the type of its request
		response.Header.Set("Content-Type", runtime.ContentTypeJSON)
	}
	sent := response.Header.Get("Content-Type")
	kind, _, err := mime.ParseMediaType(sent)
	if err != nil || slices.Contains(otherEncodings, kind) {
		return false, fmt.Errorf("%w: its type is %.60q", errNotJSON, sent)
	}
	return kind == runtime.ContentTypeJSON, nil
}

// decoded estimates the memory of a stream of JSON values when it is decoded. It checks no syntax: of an invalid stream, nothing is decoded.
type decoded struct {
	used, limit       int64
	arrays            []bool // for each open object or array, whether it is an array
	element           bool   // the next value is an element of an array
	inString, escaped bool
}

// add counts more bytes of the stream, and reports whether all is within the limit. With each, the limit holds for each value, such as an event of a watch.
func (d *decoded) add(bytes []byte, each bool) bool {
	for _, c := range bytes {
		d.used++
		switch {
		case d.escaped:
			d.escaped = false
			continue
		case d.inString:
			d.escaped, d.inString = c == '\\', c != '"'
			continue
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			continue
		case d.element && c != ']':
			d.used += d.memory()
		}
		d.element = false
		switch c {
		case '"':
			d.inString = true
		case ':':
			d.used += field
		case '{', '[':
			d.used += nested
			d.arrays, d.element = append(d.arrays, c == '['), c == '['
		case ',':
			d.element = len(d.arrays) > 0 && d.arrays[len(d.arrays)-1]
		case '}', ']':
			if d.arrays = d.arrays[:max(len(d.arrays)-1, 0)]; len(d.arrays) == 0 && each {
				d.used = 0
			}
		}
		if d.used > d.limit || len(d.arrays) > deepest {
			return false
		}
	}
	return d.used <= d.limit
}

// memory returns the memory of an array element.
func (d *decoded) memory() int64 {
	if len(d.arrays) <= 3 { // {"items": [ or, in an event of a watch, {"object": {"items": [
		return listItem
	}
	return nestedItem
}
