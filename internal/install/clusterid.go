package install

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ValidateClusterID returns an error if id is not a valid cluster ID. The ID becomes the name of objects and the value of labels, so it
// must be a DNS label of at most 63 characters. The error says what to change.
func ValidateClusterID(id string) error {
	if problems := validation.IsDNS1123Label(id); len(problems) > 0 {
		return fmt.Errorf("cluster ID %q: %s", id, problems[0])
	}
	return nil
}

// dnsLabel converts a name with upper-case letters, underscores or dots to a DNS label. It returns an empty string if no valid character is
// left.
func dnsLabel(name string) string {
	label := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, name)
	return strings.Trim(label[:min(len(label), validation.DNS1123LabelMaxLength)], "-")
}

// GeneratedClusterID derives a readable name from a number: an adjective and a noun. The same number always gives the same name.
func GeneratedClusterID(seed uint64) string {
	adjective := adjectives[seed%uint64(len(adjectives))]
	noun := nouns[seed/uint64(len(adjectives))%uint64(len(nouns))]
	return adjective + "-" + noun
}

var adjectives = [...]string{
	"amber", "ancient", "autumn", "azure", "bold", "brave", "bright", "calm", "clever", "cool", "copper", "coral", "crimson", "crisp",
	"curious", "daring", "dawn", "deep", "eager", "early", "emerald", "fair", "fancy", "fast", "fierce", "floral", "fond", "fresh", "gentle",
	"gilded", "glad", "golden", "grand", "green", "happy", "hazel", "hidden", "humble", "icy", "indigo", "ivory", "jade", "jolly", "keen",
	"kind", "late", "light", "lively", "long", "lucky", "lunar", "mellow", "merry", "misty", "neat", "noble", "ocean", "olive", "open",
	"patient", "plain", "polar", "proud", "quick", "quiet", "rapid", "royal", "ruby", "rustic", "sandy", "scarlet", "silent", "silver",
	"simple", "smooth", "snowy", "soft", "solar", "spring", "steady", "stellar", "summer", "sunny", "swift", "tall", "tidal", "tiny",
	"urban", "velvet", "violet", "vivid", "warm", "wild", "winter", "wise", "young",
}

var nouns = [...]string{
	"acorn", "anchor", "arrow", "aspen", "badger", "bay", "beacon", "bear", "birch", "bird", "breeze", "bridge", "brook", "canyon", "castle",
	"cedar", "cliff", "cloud", "comet", "cove", "crane", "creek", "crow", "delta", "dolphin", "dove", "dune", "eagle", "elm", "falcon",
	"fern", "field", "finch", "fjord", "flame", "forest", "fountain", "fox", "garden", "glacier", "grove", "harbor", "hawk", "heron", "hill",
	"island", "lagoon", "lake", "lantern", "lark", "leaf", "lion", "lotus", "lynx", "maple", "marsh", "meadow", "mesa", "moon", "moose",
	"mountain", "oak", "oasis", "orchid", "otter", "owl", "panther", "peak", "pebble", "pine", "planet", "plateau", "pond", "prairie",
	"quartz", "rain", "raven", "reef", "ridge", "river", "robin", "rose", "sail", "sea", "shore", "sky", "sparrow", "star", "stone",
	"storm", "stream", "sun", "swan", "thunder", "tiger", "trail", "tree", "tulip", "valley", "wave", "willow", "wind", "wolf", "wood",
}
