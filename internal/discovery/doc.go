// Package discovery holds the rules by which clusters find each other. It creates the DNS records that announce a cluster (DNS-SD, RFC 6763). It
// reads the records of other clusters and rejects invalid or dangerous ones.
//
// A DNS response can claim anything. So discovered data is not trusted: it only proposes an address. A token with the fingerprint of the peer's key
// decides whether a peering is established.
package discovery
