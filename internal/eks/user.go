package eks

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// User is an access key of an IAM user, and the EKS cluster for which it is used.
type User struct {
	AccessKeyID, SecretAccessKey string
	// Region and Cluster identify the EKS cluster.
	Region, Cluster string
}

// String returns the user without the secret key.
func (u User) String() string {
	return fmt.Sprintf("an access key of AWS for EKS cluster %s in region %s", u.Cluster, u.Region)
}

// GoString is String: no format prints the secret key.
func (u User) GoString() string { return u.String() }

var (
	regionForm  = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]{1,12}){1,3}-[0-9]{1,2}$`)
	clusterForm = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`)
	keyIDForm   = regexp.MustCompile(`^[0-9A-Z]{16,128}$`)
	keyForm     = regexp.MustCompile(`^[0-9A-Za-z/+=]{16,128}$`)
	arnForm     = regexp.MustCompile(`^arn:aws[a-z-]{0,20}:iam::[0-9]{12}:user/[0-9A-Za-z_+=,.@/-]{1,512}$`)
)

// temporary is the prefix of the IDs of temporary access keys. They expire within hours and need a session token as well.
const temporary = "ASIA"

// Check returns an error that names the first invalid field of an awsConfig. It never contains the values of the access key's fields, because a user
// may have swapped the ID and the secret key.
func (u User) Check() error {
	switch {
	case !keyIDForm.MatchString(u.AccessKeyID):
		return fmt.Errorf("awsAccessKeyID (%d characters) is not the ID of an access key such as AKIAIOSFODNN7EXAMPLE: \"aws iam list-access-keys --user-name NAME\" prints it", len(u.AccessKeyID))
	case strings.HasPrefix(u.AccessKeyID, temporary):
		return errors.New("awsAccessKeyID belongs to temporary credentials (" + temporary + "...), which expire within hours: create an access key of an IAM user with \"aws iam create-access-key --user-name NAME\"")
	case !keyForm.MatchString(u.SecretAccessKey):
		return fmt.Errorf("awsSecretAccessKey (%d characters) is not a secret access key: use the SecretAccessKey that \"aws iam create-access-key --user-name NAME\" printed", len(u.SecretAccessKey))
	case !regionForm.MatchString(u.Region):
		return fmt.Errorf("awsRegion is %q, want the region of the EKS cluster, such as eu-west-1", u.Region)
	case !clusterForm.MatchString(u.Cluster):
		return fmt.Errorf("awsClusterName is %q, want the name of the EKS cluster, as \"aws eks list-clusters\" prints it", u.Cluster)
	}
	return nil
}

// CheckARN returns an error if arn is not the ARN of an IAM user.
func CheckARN(arn string) error {
	if !arnForm.MatchString(arn) {
		return fmt.Errorf("awsUserArn is %q, want the ARN of an IAM user, such as arn:aws:iam::111122223333:user/rome", arn)
	}
	return nil
}

// The command of the aws CLI that prints a token, and the environment variables that pass an access key to it.
const (
	Command     = "aws"
	APIVersion  = "client.authentication.k8s.io/v1beta1"
	variableID  = "AWS_ACCESS_KEY_ID"
	variableKey = "AWS_SECRET_ACCESS_KEY"
	// variableSession is set to the empty string: a session token in the environment of kubectl would not belong to the access key.
	variableSession = "AWS_SESSION_TOKEN"
)

// Variable is an environment variable.
type Variable struct{ Name, Value string }

// Arguments returns the arguments of Command, as "aws eks update-kubeconfig" writes them into a kubeconfig.
func (u User) Arguments() []string {
	return []string{"--region", u.Region, "eks", "get-token", "--cluster-name", u.Cluster, "--output", "json"}
}

// Environment returns the variables for Command.
func (u User) Environment() []Variable {
	return []Variable{{variableID, u.AccessKeyID}, {variableKey, u.SecretAccessKey}, {variableSession, ""}}
}

// UserOf returns the User of an exec command in a kubeconfig. It returns false unless the command, its arguments and its environment are exactly
// those that Command, Arguments and Environment give for that User.
func UserOf(command string, arguments []string, environment []Variable) (User, bool) {
	var u User
	if command != Command || len(arguments) != len(u.Arguments()) || len(environment) != len(u.Environment()) {
		return User{}, false
	}
	u = User{Region: arguments[1], Cluster: arguments[5], AccessKeyID: environment[0].Value, SecretAccessKey: environment[1].Value}
	if !slices.Equal(arguments, u.Arguments()) || !slices.Equal(environment, u.Environment()) || u.Check() != nil {
		return User{}, false
	}
	return u, true
}

// Properties of a token.
const (
	// TokenPrefix precedes the signed URL, which is encoded as base64url without padding.
	TokenPrefix = "k8s-aws-v1."
	// ClusterHeader is the header that binds the signature to one cluster. Every other cluster rejects the token.
	ClusterHeader = "x-k8s-aws-id"
	// Service is the service of AWS for which the request is signed.
	Service = "sts"
	// TokenLifetime is how long a cluster accepts a token. RenewAfter is the age at which the token is replaced; the rest allows for clock skew.
	TokenLifetime = 15 * time.Minute
	RenewAfter    = 10 * time.Minute
)

// expires is the lifetime in the URL, in seconds, as the aws CLI writes it. EKS ignores it and accepts a token for TokenLifetime.
const expires = "60"

// URL returns the URL of the request to sign, with method GET and ClusterHeader. The request asks STS in the cluster's region for the identity of the
// signer.
func (u User) URL() string {
	query := url.Values{"Action": {"GetCallerIdentity"}, "Version": {"2011-06-15"}, "X-Amz-Expires": {expires}}
	return "https://" + Service + "." + u.Region + "." + Domain(u.Region) + "/?" + query.Encode()
}

// Domain returns the domain of the services of AWS in the partition of a region.
func Domain(region string) string {
	for _, partition := range [...]struct{ prefix, domain string }{
		{"cn-", "amazonaws.com.cn"},
		{"eusc-", "amazonaws.eu"},
		{"us-iso-", "c2s.ic.gov"},
		{"us-isob-", "sc2s.sgov.gov"},
		{"eu-isoe-", "cloud.adc-e.uk"},
		{"us-isof-", "csp.hci.ic.gov"},
	} {
		if strings.HasPrefix(region, partition.prefix) {
			return partition.domain
		}
	}
	return "amazonaws.com"
}
