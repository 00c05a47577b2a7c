// Package clitest has the objects that tests of the commands of liqoctl share.
package clitest
