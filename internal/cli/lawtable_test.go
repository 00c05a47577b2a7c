package cli

import (
	"bytes"
	"time"

	"liqo.io/liqo/internal/peering/invite"
)

// lawRow is a command before the law: valid arguments, and what there is before it runs.
type lawRow struct {
	// command with its arguments; %rome and %milan are kubeconfigs.
	command string
	// state is a key of lawStates.
	state string
	// code of the command when nothing fails.
	code int
	// ticks is whether it needs gateways that measure their tunnels.
	ticks bool
	// thorough makes each kind of request fail in each way, including the first requests of every command.
	thorough bool
	// exempt says why a command is not judged here.
	exempt string
}

// lawStates are the commands that create the initial states.
var lawStates = map[string][]string{
	"connected": {"network connect --wait --kubeconfig %rome --remote-kubeconfig %milan"},
	"peered":    {"peer --kubeconfig %rome --remote-kubeconfig %milan"},
	"offloaded": {"peer --kubeconfig %rome --remote-kubeconfig %milan", "offload namespace demo --kubeconfig %rome"},
	"cordoned": {"peer --kubeconfig %rome --remote-kubeconfig %milan", "cordon tenant rome --skip-confirm --kubeconfig %milan",
		"cordon resourceslice milan --remote-cluster-id rome --skip-confirm --kubeconfig %milan"},
	"drained":       {"peer --kubeconfig %rome --remote-kubeconfig %milan", "drain tenant rome --skip-confirm --kubeconfig %milan"},
	"authenticated": {"authenticate --kubeconfig %rome --remote-kubeconfig %milan"},
	"nonce":         {"create nonce --remote-cluster-id milan --kubeconfig %rome"},
	"invited":       {"generate peering-user --consumer-cluster-id milan --kubeconfig %rome"},
	"introduced":    {lawIntroduction},
	"sliced":        {"peer --create-virtual-node=false --kubeconfig %rome --remote-kubeconfig %milan"},
}

var lawToken = (&invite.Token{ID: "AAECAwQFBgcI", Expires: time.Date(2000, 1, 2, 0, 0, 0, 0, time.UTC), Pin: bytes.Repeat([]byte{7}, 32)}).Text([]byte("secret"))

var lawIntroduction = "peer out-of-band milan --auth-url https://192.0.2.2 --cluster-id milan --kubeconfig %rome --auth-token " + lawToken

const (
	lawOne  = " --kubeconfig %rome"
	lawBoth = " --kubeconfig %rome --remote-kubeconfig %milan"
)

var lawTable = map[string]lawRow{
	"authenticate":           {command: "authenticate" + lawBoth, thorough: true},
	"unauthenticate":         {command: "unauthenticate" + lawBoth, state: "authenticated"},
	"peer":                   {command: "peer" + lawBoth},
	"peer in-band":           {command: "peer in-band" + lawBoth},
	"peer out-of-band":       {command: lawIntroduction},
	"unpeer":                 {command: "unpeer --delete-namespaces" + lawBoth, state: "peered", thorough: true},
	"unpeer in-band":         {command: "unpeer in-band" + lawBoth, state: "peered"},
	"unpeer out-of-band":     {command: "unpeer out-of-band milan --kubeconfig %rome", state: "introduced"},
	"force unpeer":           {command: "force unpeer milan --skip-confirm" + lawOne, state: "peered"},
	"network connect":        {command: "network connect --wait" + lawBoth, thorough: true},
	"network disconnect":     {command: "network disconnect --wait --skip-confirm" + lawBoth, state: "connected"},
	"network reset":          {command: "network reset --wait --skip-confirm" + lawBoth, state: "connected"},
	"network rotate-keys":    {command: "network rotate-keys" + lawBoth, state: "connected", ticks: true},
	"network explain":        {command: "network explain 10.1.0.5 10.2.0.5" + lawBoth, state: "connected", code: 1},
	"offload namespace":      {command: "offload namespace demo" + lawOne, state: "peered"},
	"unoffload namespace":    {command: "unoffload namespace demo --skip-confirm" + lawOne, state: "offloaded"},
	"cordon tenant":          {command: "cordon tenant rome --skip-confirm --kubeconfig %milan", state: "peered"},
	"cordon resourceslice":   {command: "cordon resourceslice milan --remote-cluster-id rome --skip-confirm --kubeconfig %milan", state: "peered"},
	"uncordon tenant":        {command: "uncordon tenant rome --kubeconfig %milan", state: "cordoned"},
	"uncordon resourceslice": {command: "uncordon resourceslice milan --remote-cluster-id rome --kubeconfig %milan", state: "cordoned"},
	"drain tenant":           {command: "drain tenant rome --skip-confirm --kubeconfig %milan", state: "peered"},
	"activate tenant":        {command: "activate tenant rome --kubeconfig %milan", state: "drained"},
	"create resourceslice":   {command: "create resourceslice gpu --remote-cluster-id milan --cpu 2 --kubeconfig %rome", state: "peered"},
	"create nonce":           {command: "create nonce --remote-cluster-id milan --kubeconfig %rome"},
	"create configuration":   {command: "create configuration --remote-cluster-id milan --pod-cidr 10.2.0.0/16 --external-cidr 10.70.0.0/16 --wait --kubeconfig %rome"},
	"create gatewayserver":   {command: "create gatewayserver --remote-cluster-id milan --wait --kubeconfig %rome"},
	"create gatewayclient":   {command: "create gatewayclient --remote-cluster-id milan --addresses 192.0.2.2 --port 51840 --kubeconfig %rome"},
	"create publickey":       {command: "create publickey --remote-cluster-id milan --public-key AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" + lawOne},
	"create virtualnode":     {command: "create virtualnode milan --remote-cluster-id milan --resource-slice-name milan --kubeconfig %rome", state: "sliced"},
	"generate configuration": {command: "generate configuration" + lawOne},
	"generate publickey":     {command: "generate publickey --gateway-type client --gateway-name milan" + lawOne, state: "connected"},
	"generate tenant":        {command: "generate tenant --remote-cluster-id milan --nonce abc" + lawOne},
	"generate identity":      {command: "generate identity --remote-cluster-id rome --kubeconfig %milan", state: "peered"},
	"generate peering-user":  {command: "generate peering-user --consumer-cluster-id milan --kubeconfig %rome"},
	"generate peer-command":  {command: "generate peer-command" + lawOne},
	"generate dns-records":   {command: "generate dns-records clusters.example.org" + lawOne},
	"get nonce":              {command: "get nonce --remote-cluster-id milan" + lawOne, state: "nonce", thorough: true},
	"get kubeconfig":         {command: "get kubeconfig controlplane-milan --remote-cluster-id milan" + lawOne, state: "peered"},
	"delete configuration":   {command: "delete configuration milan --kubeconfig %rome", state: "connected"},
	"delete gatewayserver":   {command: "delete gatewayserver rome --kubeconfig %milan", state: "connected"},
	"delete gatewayclient":   {command: "delete gatewayclient milan -n liqo-tenant-milan --kubeconfig %rome", state: "connected"},
	"delete publickey":       {command: "delete publickey milan --kubeconfig %rome", state: "connected"},
	"delete virtualnode":     {command: "delete virtualnode milan --kubeconfig %rome", state: "peered"},
	"delete resourceslice":   {command: "delete resourceslice milan --kubeconfig %rome", state: "peered"},
	"delete peering-user":    {command: "delete peering-user --consumer-cluster-id milan --kubeconfig %rome", state: "invited"},
	"info":                   {command: "info" + lawOne, state: "peered"},
	"info peer":              {command: "info peer milan" + lawOne, state: "peered"},
	"status":                 {command: "status" + lawOne, state: "peered"},
	"status peer":            {command: "status peer milan" + lawOne, state: "peered"},
	"doctor":                 {command: "doctor" + lawBoth, state: "peered", code: 1},
	"dashboard":              {exempt: "it runs until it is interrupted"},
	"move volume":            {exempt: "pods copy its data, which no world in memory does: see TestMoveVolume"},
	"test network":           {exempt: "x"},
	"install":                {exempt: "x"},
	"uninstall":              {exempt: "x"},
	"version":                {exempt: "x"},
	"install generic":        {exempt: "it is install with a name"},
	"install kubeadm":        {exempt: "it is install with a name"},
	"install kind":           {exempt: "it is install with a name"},
	"install k3s":            {exempt: "it is install with a name"},
	"install openshift":      {exempt: "it is install with a name"},
	"install aks":            {exempt: "it asks a cloud first"},
	"install eks":            {exempt: "it asks a cloud first"},
	"install gke":            {exempt: "it asks a cloud first"},
	"discover":               {exempt: "it asks DNS servers, no cluster"},
	"options":                {exempt: "it asks no cluster"},
	"docs":                   {exempt: "it asks no cluster"},
	"completion bash":        {exempt: "it asks no cluster"},
	"completion zsh":         {exempt: "it asks no cluster"},
	"completion fish":        {exempt: "it asks no cluster"},
	"completion powershell":  {exempt: "it asks no cluster"},
}
