package install

// LockName is the Lease, in the namespace of an installation, that whoever changes the installation holds meanwhile.
const LockName = "liqoctl-install"
