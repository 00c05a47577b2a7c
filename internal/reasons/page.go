package reasons

import (
	"fmt"
	"strings"
)

// intro is the beginning of the reference page; ' stands for a backquote.
const intro = `# Events and conditions

This page is generated from the definitions in 'internal/reasons'. It lists the reasons of the Events that Liqo emits and of the conditions that it sets.

- 'kubectl events --for KIND/NAME -n NAMESPACE' shows the Events of an object, 'kubectl describe' its conditions too.
- Reasons are stable names for scripts and alerts. Messages are for people, and change between versions.
- The column "shown in" says where a reason or its message is found. 'log' is the log of the controller manager, which shows what objects wait for with
  '--verbose' ([operations](../guide/operations.md#logs-and-what-to-send-for-support)).
- A reason that ends in 'NotFound' or begins with 'WaitingFor' is no error: the object goes on when the thing in the message exists.
`

// Page returns the reference page of all reasons, in Markdown.
func Page() string {
	var page strings.Builder
	page.WriteString(strings.ReplaceAll(intro, "'", "`"))
	for _, area := range Areas() {
		fmt.Fprintf(&page, "\n## %s\n\n| reason | objects | shown in | meaning |\n|---|---|---|---|\n", area.Title)
		for _, r := range area.Reasons {
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", strings.ReplaceAll(r.Name, ", ", "`, `"), r.Objects, r.Shown, r.Meaning)
		}
	}
	return page.String()
}
