// Package discovery holds the rules by which clusters find each other: the DNS records that announce a cluster (DNS-SD, RFC 6763), what is read
// from the records of others, and which of them are refused.
//
// Whoever answers a DNS query can claim anything. So nothing that is discovered is trusted: it only proposes an address, and a token with the
// fingerprint of the peer's key decides whether a peering comes of it.
package discovery
