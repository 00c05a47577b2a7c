// Package admission has the commands by which a provider admits the pods and requests of a consumer, or no longer admits them.
package admission
