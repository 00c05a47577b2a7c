package peering

import "fmt"

// Optional keys of a consumer's invitation Secret. The consumer sends their values to the provider when it enrolls.
const (
	// InvitationBackURLKey is the key of the URL of the consumer's own authentication service.
	InvitationBackURLKey = "backURL"
	// InvitationBackTokenKey is the key of a token for the provider.
	InvitationBackTokenKey = "backToken"
)

// Invitation lets the provider of a peering use the consumer too: with it, the provider may enroll with the consumer's authentication service.
type Invitation struct {
	URL   string `json:"url"`
	Token string `json:"token"`
}

// Check returns an error if the invitation can't be used by the given cluster. It does not verify the HMAC of the token: only the cluster that
// created the token can.
func (i *Invitation) Check(cluster string) error {
	if err := CheckEnrollmentURL(i.URL); err != nil {
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
	return map[string][]byte{InvitationURLKey: []byte(i.URL), InvitationTokenKey: []byte(i.Token)}
}
