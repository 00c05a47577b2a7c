#!/usr/bin/env bash
# Installs the Debian packages that building and running clusters needs, only those that are missing, only through apt-get.
set -euo pipefail

# program=package
needs=(runc=runc nft=nftables ip=iproute2 busybox=busybox-static mount=mount nsenter=util-linux git=git make=make)

missing=()
for need in "${needs[@]}"; do
	command -v "${need%%=*}" >/dev/null || missing+=("${need#*=}")
done
[[ -e /etc/ssl/certs/ca-certificates.crt ]] || missing+=(ca-certificates)
# A busybox that needs libraries can't run in an image of its own.
if command -v busybox >/dev/null && ! dpkg-query -W -f '${Status}' busybox-static 2>/dev/null | grep -q 'install ok installed'; then
	missing+=(busybox-static)
fi

if ! command -v go >/dev/null; then
	echo "missing: Go, of the version that go.mod names (https://go.dev/doc/install)" >&2
	exit 1
fi
if ((${#missing[@]} == 0)); then
	exit 0
fi
if ((EUID != 0)); then
	echo "missing packages: ${missing[*]}; run this as root, or: sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
	exit 1
fi
echo "== installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
