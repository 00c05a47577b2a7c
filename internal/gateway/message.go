package gateway

import (
	"encoding/json"
	"fmt"
	"time"

	"liqo.io/liqo/internal/network"
)

// Message types of the ping protocol.
const (
	ping = "PING"
	pong = "PONG"
	// bye announces that its sender is about to shut down and that another replica is available. Receivers do not answer it.
	bye = "BYE"
)

// pingMessage is a ping through the tunnel. The answer is the same message with type pong.
type pingMessage struct {
	ClusterID string    `json:"clusterID"`
	Type      string    `json:"msgType"`
	Time      time.Time `json:"timeStamp"`
}

// answerPing returns the answer to a ping, or an error if the text is not a ping.
func answerPing(text []byte) ([]byte, error) {
	var asked pingMessage
	if err := json.Unmarshal(text, &asked); err != nil {
		return nil, fmt.Errorf("reading a ping: %w", err)
	}
	if asked.Type != ping {
		return nil, fmt.Errorf("reading a ping: its type is %q", asked.Type)
	}
	asked.Type = pong
	return json.Marshal(asked)
}

// probeMessage is a probe for the state of a replica (only the nonce is set), and also the answer to it.
type probeMessage struct {
	Nonce uint64 `json:"nonce"`
	network.Answer
}

// answerProbe returns the answer to a probe, or an error if the text is not a probe.
func answerProbe(text []byte, answer network.Answer) ([]byte, error) {
	var asked probeMessage
	if err := json.Unmarshal(text, &asked); err != nil {
		return nil, fmt.Errorf("reading a probe: %w", err)
	}
	if asked.State != "" {
		return nil, fmt.Errorf("reading a probe: it is an answer, in state %q", asked.State)
	}
	return json.Marshal(probeMessage{Nonce: asked.Nonce, Answer: answer})
}
