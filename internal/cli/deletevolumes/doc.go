// Package deletevolumes has the flag --delete-volumes of the commands that end an offloading or a peering. Without it they refuse what would delete data in another cluster.
package deletevolumes
