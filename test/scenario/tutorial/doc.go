// Package tutorial runs the commands of a README, and compares their output with what the README shows. So a tutorial can't promise what does not work.
//
// In a README, blocks marked bash are run in one shell, one after the other. A block marked sh is the input of the program that the previous command has
// started. A block marked text, yaml or json is the expected output of the commands before it. Commands in a block marked "bash background" continue while the
// next ones run.
package tutorial
