package eks

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sts"
)

var rome = User{
	AccessKeyID: "AKIAIOSFODNN7EXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", Region: "eu-west-1", Cluster: "milan",
}

// TestUsersAreChecked: each error names the field and the cure, and never contains a key, whichever field contains it.
func TestUsersAreChecked(t *testing.T) {
	if err := rome.Check(); err != nil {
		t.Fatal(err)
	}
	const injected = "x --endpoint-url https://evil.example"
	for name, c := range map[string]struct {
		change      func(*User)
		field, cure string
	}{
		"no key ID":          {func(u *User) { u.AccessKeyID = "" }, "awsAccessKeyID (0 ", "aws iam list-access-keys"},
		"keys swapped":       {func(u *User) { u.AccessKeyID, u.SecretAccessKey = u.SecretAccessKey, u.AccessKeyID }, "awsAccessKeyID (40 ", "aws iam list-access-keys"},
		"temporary":          {func(u *User) { u.AccessKeyID = "ASIAIOSFODNN7EXAMPLE" }, "awsAccessKeyID belongs to temporary ", "aws iam create-access-key"},
		"no secret":          {func(u *User) { u.SecretAccessKey = "" }, "awsSecretAccessKey (0 ", "aws iam create-access-key"},
		"a line of a file":   {func(u *User) { u.SecretAccessKey += "\n" }, "awsSecretAccessKey (41 ", "aws iam create-access-key"},
		"no region":          {func(u *User) { u.Region = "" }, `awsRegion is ""`, "such as eu-west-1"},
		"a zone":             {func(u *User) { u.Region = "eu-west-1a" }, `awsRegion is "eu-west-1a"`, "such as eu-west-1"},
		"another host":       {func(u *User) { u.Region = "evil.example/-1" }, "awsRegion is ", "such as eu-west-1"},
		"no cluster":         {func(u *User) { u.Cluster = "" }, `awsClusterName is ""`, "aws eks list-clusters"},
		"an option":          {func(u *User) { u.Cluster = "--debug" }, `awsClusterName is "--debug"`, "aws eks list-clusters"},
		"several arguments":  {func(u *User) { u.Cluster = injected }, "awsClusterName is ", "aws eks list-clusters"},
		"an ARN as the name": {func(u *User) { u.Cluster = "arn:aws:eks:eu-west-1:111122223333:cluster/milan" }, "awsClusterName is ", "aws eks list-clusters"},
	} {
		t.Run(name, func(t *testing.T) {
			user := rome
			c.change(&user)
			err := user.Check()
			if err == nil || !strings.HasPrefix(err.Error(), c.field) || !strings.Contains(err.Error(), c.cure) {
				t.Errorf("got %v, want %q ... %q", err, c.field, c.cure)
			}
			if err != nil && strings.Contains(err.Error(), rome.SecretAccessKey) {
				t.Errorf("the secret key is in %v", err)
			}
			if _, ok := UserOf(Command, user.Arguments(), user.Environment()); ok {
				t.Error("it is taken from a kubeconfig all the same")
			}
		})
	}
	for arn, good := range map[string]bool{
		"arn:aws:iam::111122223333:user/rome": true, "arn:aws-cn:iam::111122223333:user/liqo/rome": true,
		"": false, "rome": false, "arn:aws:iam::111122223333:role/rome": false, "arn:aws:iam::111122223333:user/rome\nx": false,
	} {
		if err := CheckARN(arn); (err == nil) != good || (!good && !strings.HasPrefix(err.Error(), "awsUserArn is ")) {
			t.Errorf("%q: %v, want good %t", arn, err, good)
		}
	}
}

// TestNoFormatPrintsTheSecretKey: formatting a user never prints the secret key.
func TestNoFormatPrintsTheSecretKey(t *testing.T) {
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if text := fmt.Sprintf(format, rome) + fmt.Sprintf(format, &rome); strings.Contains(text, "wJalr") {
			t.Errorf("%s prints %s", format, text)
		}
	}
}

// TestOnlyTheCommandForTokensIsRecognized: from any other command, or with anything else, no user is read.
func TestOnlyTheCommandForTokensIsRecognized(t *testing.T) {
	if got, ok := UserOf(Command, rome.Arguments(), rome.Environment()); !ok || got != rome {
		t.Errorf("got %v, %t", got, ok)
	}
	for name, change := range map[string]func(command *string, arguments *[]string, environment *[]Variable){
		"a path":             func(c *string, _ *[]string, _ *[]Variable) { *c = "/tmp/aws" },
		"another command":    func(c *string, _ *[]string, _ *[]Variable) { *c = "sh" },
		"one argument less":  func(_ *string, a *[]string, _ *[]Variable) { *a = (*a)[:7] },
		"one argument more":  func(_ *string, a *[]string, _ *[]Variable) { *a = append(*a, "--debug") },
		"another subcommand": func(_ *string, a *[]string, _ *[]Variable) { (*a)[3] = "delete-cluster" },
		"no keys":            func(_ *string, _ *[]string, e *[]Variable) { *e = nil },
		"a profile":          func(_ *string, _ *[]string, e *[]Variable) { (*e)[2] = Variable{"AWS_PROFILE", "admin"} },
		"a session":          func(_ *string, _ *[]string, e *[]Variable) { (*e)[2].Value = "session" },
	} {
		command, arguments, environment := Command, slices.Clone(rome.Arguments()), slices.Clone(rome.Environment())
		change(&command, &arguments, &environment)
		if got, ok := UserOf(command, arguments, environment); ok {
			t.Errorf("%s: read %v", name, got)
		}
	}
}

// TestEndpointsAreThoseOfTheSDK: in each partition of AWS, the request is for the endpoint that the official SDK uses for the region. EKS asks no
// other.
func TestEndpointsAreThoseOfTheSDK(t *testing.T) {
	for _, region := range []string{
		"us-east-1", "eu-west-1", "ap-southeast-5", "il-central-1", "mx-central-1", "us-gov-west-1", "cn-north-1", "eusc-de-east-1",
		"us-iso-east-1", "us-isob-east-1", "eu-isoe-west-1", "us-isof-south-1",
	} {
		user := rome
		user.Region = region
		if err := user.Check(); err != nil {
			t.Errorf("%s: %v", region, err)
		}
		want, err := sts.NewDefaultEndpointResolverV2().ResolveEndpoint(t.Context(), sts.EndpointParameters{Region: &region})
		if err != nil {
			t.Fatal(err)
		}
		got, err := url.Parse(user.URL())
		if err != nil {
			t.Fatal(err)
		}
		if got.Scheme != want.URI.Scheme || got.Host != want.URI.Host {
			t.Errorf("%s: %s, want %s", region, got, &want.URI)
		}
	}
}
