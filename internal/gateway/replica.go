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

// replicaFile, in Directory, is what the agent tells of its replica. The file's time is when the agent last said so.
const replicaFile = "replica"

// Standing is the state of a replica and when it came into it.
type Standing struct {
	State network.State `json:"state"`
	Since time.Time     `json:"since"`
}

// Announce tells those who ask on a port what this replica is, at once if they just asked. It is done at every tick, also without change: that
// shows that the agent lives.
func Announce(directory string, port uint16, standing Standing, now time.Time) error {
	text, err := json.Marshal(standing)
	if err != nil {
		return fmt.Errorf("writing the standing of the replica: %w", err)
	}
	path := filepath.Join(directory, replicaFile)
	if old, err := os.ReadFile(path); err != nil || !bytes.Equal(old, text) {
		if err := replaceFile(directory, replicaFile, text); err != nil {
			return err
		}
		return tellOfChange(port)
	}
	if err := os.Chtimes(path, now, now); err != nil {
		return fmt.Errorf("telling that the replica lives: %w", err)
	}
	return nil
}

// Announced is what was last told and when; zero if nothing was.
func Announced(directory string) (Standing, time.Time, error) {
	path := filepath.Join(directory, replicaFile)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Standing{}, time.Time{}, nil
	}
	if err != nil {
		return Standing{}, time.Time{}, fmt.Errorf("looking at the standing of the replica: %w", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Standing{}, time.Time{}, fmt.Errorf("reading the standing of the replica: %w", err)
	}
	var told Standing
	if err := json.Unmarshal(text, &told); err != nil {
		return Standing{}, time.Time{}, fmt.Errorf("reading the standing of the replica in %s: %w", path, err)
	}
	return told, info.ModTime(), nil
}

// answer is what to say when asked: what the agent told, as long as it lives. What was told before this process began counts for nothing: that
// agent may have ended with the process before this one, which comes back sooner than an agent does. An active replica stays so without its
// agent as long as the peer's pings arrive, since its traffic does. In all other cases the replica is on standby.
func answer(told Standing, at, began, lastPing, now time.Time) network.Answer {
	until := at.Add(agentSilence)
	if at.Before(began) && until.After(began) {
		until = began
	}
	if now.After(until) && (told.State != network.Active || now.Sub(lastPing) > agentSilence) {
		return network.Answer{State: network.Standby, For: now.Sub(until)}
	}
	return network.Answer{State: told.State, For: max(now.Sub(told.Since), 0)}
}
