// Package installer performs an installation that package install computed. It gathers facts about a cluster, and applies the custom resource
// definitions and the chart embedded in this program. It rolls back a failed installation, and removes all objects of an installation. No function
// waits for the outcome: the caller waits and shows the progress.
package installer
