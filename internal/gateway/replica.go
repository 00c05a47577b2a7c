package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"liqo.io/liqo/internal/network"
)

// replicaFile is the file in Directory that holds the announced ReplicaStatus. Its modification time is the time of the last
// announcement.
const replicaFile = "replica"

// ReplicaStatus is the state of a replica and the time at which the replica entered that state.
type ReplicaStatus struct {
	State network.State `json:"state"`
	Since time.Time     `json:"since"`
}

// PublishStatus publishes the state of this replica to the responder on a port of this pod. After a change, the responder answers
// recent probes again at once. The agent calls PublishStatus at every step, also without a change, to show that it is alive.
func PublishStatus(directory string, port uint16, status ReplicaStatus, now time.Time) error {
	text, err := json.Marshal(status)
	if err != nil {
		return fmt.Errorf("writing the status of the replica: %w", err)
	}
	path := filepath.Join(directory, replicaFile)
	old, err := os.ReadFile(path)
	changed := err != nil || !bytes.Equal(old, text)
	if changed {
		if err := replaceFile(directory, replicaFile, text); err != nil {
			return err
		}
	}
	// The time of the file says when the state was announced. The kernel would set it to the time of its last tick, which may be before the start of
	// the responder. The responder would then ignore the file, so the time is set here.
	if err := os.Chtimes(path, now, now); err != nil {
		return fmt.Errorf("writing the status of the replica: %w", err)
	}
	if !changed {
		return nil
	}
	return notifyResponder(port)
}

// PublishedStatus returns the last announced ReplicaStatus and its time; both are zero if there was none.
func PublishedStatus(directory string) (ReplicaStatus, time.Time, error) {
	path := filepath.Join(directory, replicaFile)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return ReplicaStatus{}, time.Time{}, nil
	}
	if err != nil {
		return ReplicaStatus{}, time.Time{}, fmt.Errorf("reading the status of the replica: %w", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return ReplicaStatus{}, time.Time{}, fmt.Errorf("reading the status of the replica: %w", err)
	}
	var reported ReplicaStatus
	if err := json.Unmarshal(text, &reported); err != nil {
		return ReplicaStatus{}, time.Time{}, fmt.Errorf("reading the status of the replica in %s: %w", path, err)
	}
	return reported, info.ModTime(), nil
}

// answer returns the answer to a probe. As long as the agent is alive, that is the state that it announced last.
//
// An announcement from before the start of this process does not prove that the agent is alive: the agent may have ended together with the previous process,
// and this process restarts faster than an agent does. Without its agent, an active replica stays active while pings of the peer arrive, because other
// traffic then arrives too. In all other cases, the replica is on standby.
func answer(reported ReplicaStatus, at, began, lastPing, now time.Time) network.Answer {
	until := at.Add(agentSilence)
	if at.Before(began) && until.After(began) {
		until = began
	}
	if now.After(until) && (reported.State != network.Active || now.Sub(lastPing) > agentSilence) {
		return network.Answer{State: network.Standby, For: now.Sub(until)}
	}
	return network.Answer{State: reported.State, For: max(now.Sub(reported.Since), 0)}
}
