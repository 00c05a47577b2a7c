//go:build !linux

package apitest

import "syscall"

// endsWithParent is for Linux only: elsewhere, programs outlive a test process that is killed.
func endsWithParent() *syscall.SysProcAttr { return nil }
