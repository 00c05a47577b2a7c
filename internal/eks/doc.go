// Package eks describes how a user of AWS authenticates in a cluster of Amazon EKS. The token is a request to AWS STS that the user has signed but
// not sent. The cluster sends it to STS, and the response names the user. The package is pure: it describes the request, and package remote signs it.
package eks
