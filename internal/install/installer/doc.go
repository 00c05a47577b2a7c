// Package installer carries out what package install decides. It gathers facts about a cluster, and applies the custom resource definitions
// and the chart embedded in this program. It rolls back a failed installation, and removes all traces of an installation. No function waits
// for the outcome: the caller waits and shows the progress.
package installer
