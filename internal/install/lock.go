package install

// LockName is the name of the Lease in the namespace of an installation. A process holds it while it changes the installation.
const LockName = "liqoctl-install"
