package workload

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"liqo.io/liqo/internal/cli/session"
)

// execStreams are the streams that an API server sends to the client of a command in a pod.
type execStreams struct{ out, problem, status io.Writer }

func (s *execStreams) succeed() { _, _ = s.status.Write([]byte(`{"status":"Success"}`)) }

// fail reports exit code 1.
func (s *execStreams) fail() {
	_, _ = s.status.Write([]byte(`{"status":"Failure","reason":"NonZeroExitCode","message":"exit code 1","details":{"causes":[{"reason":"ExitCode","message":"1"}]}}`))
}

// execServer returns cluster milan, whose API server runs a function instead of a command in a pod. The context of the function ends when the test
// does.
func execServer(t *testing.T, run func(ctx context.Context, streams *execStreams)) *session.Cluster {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{"v5.channel.k8s.io": {Binary: true, Channels: []wsstream.ChannelType{
			wsstream.ReadChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.WriteChannel,
		}}})
		_, streams, err := conn.Open(w, r)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		run(ctx, &execStreams{out: streams[1], problem: streams[2], status: streams[3]})
	}))
	t.Cleanup(server.Close)
	t.Cleanup(cancel) // first, so that Close does not wait for the function
	return &session.Cluster{ID: "milan", Config: &rest.Config{Host: server.URL}}
}
