// Package workload runs commands in pods, reads what pods answer, and says in which state Deployments, pods and definitions are.
package workload
