package apitest

import "syscall"

// endsWithParent makes the kernel kill a program when the process that started it ends, even if that process is killed and can't clean up.
func endsWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
