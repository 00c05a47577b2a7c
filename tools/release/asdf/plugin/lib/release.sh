# Functions of the asdf plugin for liqoctl. The file releases holds the address of the folder that has one folder for each version.
set -eu

releases=${LIQO_RELEASES:-$(cat "$(dirname "$0")/../releases")}

fail() {
	echo "liqoctl: $*" >&2
	exit 1
}

# fetch PATH FILE downloads a file of the releases.
fetch() {
	curl --fail --silent --show-error --location --output "$2" "$releases/$1" || fail "downloading $releases/$1 failed: check the version with \"asdf list-all liqoctl\", and the network"
}

# sum FILE prints the SHA-256 checksum of a file.
sum() {
	if command -v sha256sum >/dev/null; then
		sha256sum "$1"
	else
		shasum -a 256 "$1"
	fi | cut -d ' ' -f 1
}

# platform prints the operating system and the architecture of this machine, as releases call them.
platform() {
	system=$(uname -s)
	machine=$(uname -m)
	case $system in
	Linux) system=linux ;;
	Darwin) system=darwin ;;
	*) fail "a release has no liqoctl for $system: use Linux or macOS" ;;
	esac
	case $machine in
	x86_64 | amd64) machine=amd64 ;;
	aarch64 | arm64) machine=arm64 ;;
	*) fail "a release has no liqoctl for $machine: use amd64 or arm64" ;;
	esac
	echo "$system-$machine"
}
