package invite

import "fmt"

// An invitation is a Secret in the consumer's tenant namespace: it lets the consumer enroll with the authentication service of a provider.
const (
	// Secret is the name of the Secret of an invitation.
	Secret = "liqo-invitation"
	// Label ("true") marks the Secret of an invitation.
	Label = "liqo.io/invitation"
	// URLKey and TokenKey are the keys of the authentication service's URL and of the token.
	URLKey   = "url"
	TokenKey = "token"
	// ProxyKey is the key of the URL of an HTTP CONNECT proxy in front of the provider's API server. It is optional.
	ProxyKey = "proxyURL"
)

// Optional keys of a consumer's invitation Secret. The consumer sends their values to the provider when it enrolls.
const (
	// BackURLKey is the key of the URL of the consumer's own authentication service.
	BackURLKey = "backURL"
	// BackTokenKey is the key of a token for the provider.
	BackTokenKey = "backToken"
)

// Invitation lets the provider of a peering use the consumer too: with it, the provider may enroll with the consumer's authentication service.
type Invitation struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

// Check returns an error if the invitation can't be used by the given cluster. It does not verify the HMAC of the token: only the cluster that
// created the token can.
func (i *Invitation) Check(cluster string) error {
	if err := CheckURL(i.URL); err != nil {
		return err
	}
	token, err := ParseToken(i.Token)
	if err == nil && token.Consumer != cluster {
		err = fmt.Errorf("the token is for cluster %q, not for %s", token.Consumer, cluster)
	}
	return err
}

// Data returns the data of the invitation Secret in the provider.
func (i *Invitation) Data() map[string][]byte {
	return map[string][]byte{URLKey: []byte(i.URL), TokenKey: []byte(i.Token)}
}
