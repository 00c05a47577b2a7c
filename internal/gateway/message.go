package gateway

import (
	"encoding/json"
	"fmt"
	"time"

	"liqo.io/liqo/internal/network"
)

// Kinds of pings, as they are on the wire.
const (
	ping = "PING"
	pong = "PONG"
	// bye is not answered: whoever sends it will not be there for long, and another replica is.
	bye = "BYE"
)

// pingMessage is what goes through the tunnel to ask whether the other side is there; the answer repeats it with the other type.
type pingMessage struct {
	ClusterID string    `json:"clusterID"`
	Type      string    `json:"msgType"`
	Time      time.Time `json:"timeStamp"`
}

// answerPing returns the answer to a ping, or an error when it is none.
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

// probeMessage asks a replica what it is, with only the nonce set, and is the answer.
type probeMessage struct {
	Nonce uint64 `json:"nonce"`
	network.Answer
}

// answerProbe returns the answer of a replica to a question.
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
