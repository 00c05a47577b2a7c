package network

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// The rule checks every frame that the bridge forwards, so a cut also stops established connections and ARP.
// It matches cables rather than addresses because pods of different clusters may have the same addresses.
const table = `add table bridge playground
add set bridge playground cut { type ifname . ifname; }
add chain bridge playground forward { type filter hook forward priority 0; policy accept; }
flush chain bridge playground forward
add rule bridge playground forward meta iifname . meta oifname @cut drop
`

// Pair is a pair of cables between which all traffic is dropped.
type Pair struct{ A, B string }

// Cut drops all traffic between each pair of cables, in both directions. It is idempotent.
func (i Internet) Cut(pairs []Pair) error { return i.change("add", pairs) }

// Heal removes the cuts of the given pairs. It ignores pairs that are not cut.
func (i Internet) Heal(pairs []Pair) error {
	now, err := i.Cuts()
	if err != nil {
		return err
	}
	pairs = slices.DeleteFunc(slices.Clone(pairs), func(p Pair) bool {
		return !slices.Contains(now, p) && !slices.Contains(now, Pair{p.B, p.A})
	})
	return i.change("delete", pairs)
}

func (i Internet) change(verb string, pairs []Pair) error {
	if len(pairs) == 0 {
		return nil
	}
	var elements []string
	for _, p := range pairs {
		elements = append(elements, fmt.Sprintf("%q . %q", p.A, p.B), fmt.Sprintf("%q . %q", p.B, p.A))
	}
	text := fmt.Sprintf("%s element bridge playground cut { %s }\n", verb, strings.Join(elements, ", "))
	if err := i.Do(func() error { return run(text, "nft", "-f", "-") }); err != nil {
		return fmt.Errorf("changing the partition: %w", err)
	}
	return nil
}

// Cuts returns the pairs that are cut, sorted, each pair once.
func (i Internet) Cuts() ([]Pair, error) {
	if !i.exists() {
		return nil, nil
	}
	var text []byte
	err := i.Do(func() (err error) {
		text, err = output("", "nft", "-j", "list", "set", "bridge", "playground", "cut")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the partition: %w", err)
	}
	var list struct {
		Nftables []struct {
			Set struct {
				Elem []struct{ Concat []string }
			}
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("reading the partition: %w", err)
	}
	var pairs []Pair
	for _, entry := range list.Nftables {
		for _, e := range entry.Set.Elem {
			if len(e.Concat) == 2 && e.Concat[0] < e.Concat[1] {
				pairs = append(pairs, Pair{e.Concat[0], e.Concat[1]})
			}
		}
	}
	slices.SortFunc(pairs, func(a, b Pair) int { return strings.Compare(a.A+" "+a.B, b.A+" "+b.B) })
	return pairs, nil
}

func runOutput(cmd *exec.Cmd, input string) ([]byte, error) {
	var out, problem bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &problem
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("running %s: %w: %s", cmd.Path, err, strings.TrimSpace(problem.String()))
	}
	return out.Bytes(), nil
}
