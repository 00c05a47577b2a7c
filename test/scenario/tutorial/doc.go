// Package tutorial types what a README tells its readers to type, and holds what comes of it against what the README shows them. So a
// tutorial can't promise what does not work.
//
// In a README, a block marked bash is typed into one shell from the first to the last. A block marked sh is typed into what the command
// before it has opened. A block marked text, yaml or json is what the commands before it print. "bash background" goes on while the next
// ones are typed.
package tutorial
