// Package cmdline has what the commands of liqoctl share on their command lines and what needs no cluster: checks of arguments, flags, examples of help texts,
// and suggestions for words that are typed wrongly.
package cmdline
