package cmdline

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// DidYouMean appends similar known words to the error about an unknown word.
func DidYouMean(err error, typed string, known []string) error {
	like := Similar(typed, known)
	if len(like) == 0 {
		return err
	}
	return fmt.Errorf("%w\nDid you mean %s?", err, strings.Join(like, " or "))
}

// Similar returns the known words that start with the typed text or differ from it by a typing mistake. It accepts one mistake, or two in
// words of at least five letters. It returns nothing for a single letter.
func Similar(typed string, known []string) []string {
	var like []string
	word := strings.ToLower(strings.TrimLeft(typed, "-"))
	for _, k := range known {
		candidate := strings.ToLower(strings.TrimLeft(k, "-"))
		mistakes := 1
		if len(word) >= 5 {
			mistakes = 2
		}
		mistyped := len(word) > 2 && distance(word, candidate) <= mistakes
		if len(word) > 1 && (strings.HasPrefix(candidate, word) || mistyped) && !slices.Contains(like, k) {
			like = append(like, k)
		}
	}
	return like
}

// OneOf rejects a flag value that is not among the known ones.
func OneOf(flag, value string, known ...string) error {
	if slices.Contains(known, value) {
		return nil
	}
	want := "one of " + strings.Join(known, ", ")
	if len(known) < 3 {
		want = strings.Join(known, " or ")
	}
	return DidYouMean(fmt.Errorf("--%s %s: want %s", flag, value, want), value, known)
}

// UnknownCommand rejects an argument of a command that only groups subcommands.
func UnknownCommand(cmd *cobra.Command, args []string) error {
	err := cobra.NoArgs(cmd, args)
	if err == nil {
		return nil
	}
	var known []string
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() {
			known = append(known, child.Name())
		}
	}
	err = fmt.Errorf("%w (%s --help lists the commands)", err, cmd.CommandPath())
	typed := strings.Join(append(strings.Fields(cmd.CommandPath())[1:], args[0]), " ")
	for _, other := range cmd.Root().Commands() {
		if slices.Contains(other.SuggestFor, typed) {
			return fmt.Errorf("%w\nDid you mean %s?", err, other.CommandPath())
		}
	}
	return DidYouMean(err, args[0], known)
}

// wanted describes the valid values for some flag types. The parsers of these types return errors of the Go standard library, which do not say what is valid.
var wanted = map[string]string{
	"bool": "true or false", "duration": "a duration, for example 30s or 5m", "int": "a whole number", "int32": "a whole number", "uint16": "a whole number, 0 to 65535",
}

// FlagError says which values of a flag are valid in the error about an invalid one, and appends similar flags of the command to the error about an unknown flag. A
// misspelt command leaves its flags to the group that it is in, which does not know them. Then the error is about the command.
func FlagError(cmd *cobra.Command, err error) error {
	if invalid, is := errors.AsType[*pflag.InvalidValueError](err); is {
		want, known := wanted[invalid.GetFlag().Value.Type()]
		switch {
		case !known:
			return err
		case errors.Is(err, strconv.ErrRange) && !strings.Contains(want, " to "):
			want += " with fewer digits"
		}
		return fmt.Errorf("--%s %s: want %s", invalid.GetFlag().Name, invalid.GetValue(), want)
	}
	unknown := (*pflag.NotExistError)(nil)
	if !errors.As(err, &unknown) {
		return err
	}
	if args := cmd.Flags().Args(); len(args) > 0 && cmd.HasAvailableSubCommands() && cmd.ValidateArgs(args[:1]) != nil {
		return UnknownCommand(cmd, args)
	}
	var known []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			known = append(known, "--"+flag.Name)
		}
	})
	return DidYouMean(fmt.Errorf("%w (%s --help lists the flags)", err, cmd.CommandPath()), unknown.GetSpecifiedName(), known)
}

// distance returns the number of edits between two words: letters added, removed, replaced or swapped with the next letter (optimal string
// alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
