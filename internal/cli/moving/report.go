package moving

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"liqo.io/liqo/internal/cli/console"
	"liqo.io/liqo/internal/storage/move"
)

// moveProgress describes the progress of a move. With -o json it is one line of the output.
type moveProgress struct {
	// Phase is a phase of the move, "verifying" while a checksum is computed, or "done".
	Phase string `json:"phase"`
	// Number is the place of the phase among Phases. It never decreases: a later phase may copy once more. Both are 0 if the phase has no place.
	Number int `json:"number,omitempty"`
	Phases int `json:"phases,omitempty"`
	// Message describes the current activity, or the event that the move waits for.
	Message string `json:"message,omitempty"`
	// Bytes is the amount of data that was read or written in this phase. Total is the whole amount, if it is known.
	Bytes int64 `json:"bytes,omitempty"`
	Total int64 `json:"total,omitempty"`
	// BytesPerSecond is the average rate in this phase, SecondsLeft the time that the rest takes at this rate.
	BytesPerSecond int64 `json:"bytesPerSecond,omitempty"`
	SecondsLeft    int64 `json:"secondsLeft,omitempty"`
	// Checksum is the checksum of the data and Files the number of its files, once they are known.
	Checksum string `json:"checksum,omitempty"`
	Files    int64  `json:"files,omitempty"`
}

// moveReport shows the progress of a move, as a step of the console and lines at the end of parts, or as lines of JSON.
type moveReport struct {
	console *console.Console
	lines   bool
	now     func() time.Time
	running *console.Step
	last    moveProgress
	// began is the start time of the phase in last, and from the amount of data at that time.
	began time.Time
	from  int64
	// result describes the copied data.
	result move.Result
	// live means that the move copies while pods use the claim. number is the highest number of a phase so far.
	live   bool
	number int
}

func newMoveReport(c *console.Console, lines bool, now func() time.Time) *moveReport {
	return &moveReport{console: c, lines: lines, now: now}
}

// end ends the step of the console.
func (r *moveReport) end() {
	if r.running != nil {
		r.running.End()
	}
}

// step reports a step that has no progress of its own.
func (r *moveReport) step(step *move.Step) {
	switch {
	case step.Err != nil:
		return
	case step.Done:
		r.show(moveProgress{Phase: "done", Message: step.Why, Checksum: r.result.Checksum, Files: r.result.Files, Bytes: r.result.Bytes})
		r.end()
		r.did("%s", capital(step.Why))
		return
	case step.Result != nil:
		r.result = *step.Result
		r.did("Both volumes have %d files with %s, and checksum %s", r.result.Files, amount(r.result.Bytes), r.result.Checksum)
	}
	switch step.Object.(type) {
	case *appsv1.Deployment, *appsv1.StatefulSet:
		r.did("%s", capital(step.Why))
	}
	message := step.Why
	if step.Action == move.Nothing {
		message = "waiting for " + message
	}
	p := moveProgress{Phase: string(step.Phase), Message: message}
	p.Number, p.Phases = r.place(step.Phase)
	r.show(p)
}

// progress reports the progress of the pod of a step. line is the last line that the pod wrote, nil if there is none.
func (r *moveReport) progress(step *move.Step, line *movedLine) {
	if line == nil {
		r.step(step)
		return
	}
	p := moveProgress{Phase: string(step.Phase), Bytes: line.amount(), Total: line.TotalBytes}
	p.Number, p.Phases = r.place(step.Phase)
	if line.MessageType == "verify" {
		p.Phase = "verifying"
	}
	if p.Phase != r.last.Phase || r.last.Bytes == 0 {
		r.began, r.from = r.now(), p.Bytes
	}
	if seconds := r.now().Sub(r.began).Seconds(); seconds >= 1 && p.Bytes > r.from {
		p.BytesPerSecond = int64(float64(p.Bytes-r.from) / seconds)
		p.SecondsLeft = max(0, p.Total-p.Bytes) / max(1, p.BytesPerSecond)
	}
	r.show(p)
}

// place returns the number of a phase and the number of phases.
func (r *moveReport) place(phase move.Phase) (number, of int) {
	if number, of = phase.Number(r.live); of > 0 {
		r.number = max(r.number, number)
		number = r.number
	}
	return number, of
}

// differs reports whether a move has progressed since before. Rate and remaining time also change while nothing is copied.
func (p *moveProgress) differs(before *moveProgress) bool {
	return p.Phase != before.Phase || p.Message != before.Message || p.Bytes != before.Bytes
}

// show prints progress that differs from the last one.
func (r *moveReport) show(p moveProgress) {
	if p == r.last {
		return
	}
	r.last = p
	if r.lines {
		// Ignore the error: the move must continue even if the reader of the output has ended.
		_ = json.NewEncoder(r.console.Out()).Encode(struct {
			// Time is when the line was written.
			Time time.Time `json:"time"`
			moveProgress
		}{r.now().UTC(), p})
		return
	}
	if r.running == nil {
		r.running = r.console.Start("%s", p.text())
		return
	}
	r.running.Update("%s", p.text())
}

// failed reports a failure that does not stop the move.
func (r *moveReport) failed(phase move.Phase, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	r.did("%s", capital(message))
	if r.lines {
		r.show(moveProgress{Phase: string(phase), Message: message})
	}
}

func (r *moveReport) did(format string, args ...any) {
	if !r.lines {
		r.console.Did(format, args...)
	}
}

// text is the progress for people.
func (p *moveProgress) text() string {
	out := capital(p.Phase)
	if p.Phases > 0 {
		out = fmt.Sprintf("%d/%d %s", p.Number, p.Phases, p.Phase)
	}
	if p.Message != "" {
		out += ": " + p.Message
	}
	if p.Bytes > 0 {
		out += ": " + amount(p.Bytes)
	}
	if p.Bytes > 0 && p.Total > 0 {
		out += " of " + amount(p.Total)
	}
	if p.BytesPerSecond > 0 {
		out += ", " + amount(p.BytesPerSecond) + "/s"
	}
	if p.SecondsLeft > 0 {
		out += fmt.Sprintf(", %s left", time.Duration(p.SecondsLeft)*time.Second)
	}
	return out
}

// amount is a number of bytes for people, in the units of Kubernetes' quantities.
func amount(bytes int64) string {
	value, unit := float64(bytes), 0
	units := []string{"bytes", "Ki", "Mi", "Gi", "Ti", "Pi"}
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if unit == 0 {
		return fmt.Sprintf("%d bytes", bytes)
	}
	return fmt.Sprintf("%.1f%s", value, units[unit])
}

// capital returns text with its first letter in upper case, for the start of a sentence.
func capital(text string) string {
	if text == "" || text[0] < 'a' || text[0] > 'z' {
		return text
	}
	return string(text[0]-'a'+'A') + text[1:]
}

// movedLine is a line of progress that restic or the program in the pod writes.
type movedLine struct {
	MessageType   string `json:"message_type"`
	TotalBytes    int64  `json:"total_bytes"`
	BytesDone     int64  `json:"bytes_done"`
	BytesRestored int64  `json:"bytes_restored"`
	BytesSkipped  int64  `json:"bytes_skipped"`
}

func (l *movedLine) amount() int64 { return max(l.BytesDone, l.BytesRestored+l.BytesSkipped) }

// progressOf reads the progress of a pod. It returns nil, and no error, if the progress is unknown, because the move must continue.
func (v *volumeMove) progressOf(ctx context.Context, pod *corev1.Pod) *movedLine {
	if pod.Status.Phase != corev1.PodRunning {
		return nil
	}
	text, err := v.logs(ctx, pod.Namespace, pod.Name)
	line := &movedLine{}
	if err != nil || json.Unmarshal(text, line) != nil || line.MessageType != "status" && line.MessageType != "verify" {
		return nil
	}
	return line
}
