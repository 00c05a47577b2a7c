#!/usr/bin/env bash
# Installs the browser that tests of the dashboard need, and the font of the pictures in the guide, if they are missing, only through apt-get.
set -euo pipefail

if [[ -x /usr/bin/chromium && -e /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf ]]; then
	exit 0
fi
if ((EUID != 0)); then
	echo "missing package: chromium or fonts-dejavu-core; run this as root, or: sudo apt-get install -y --no-install-recommends chromium fonts-dejavu-core" >&2
	exit 1
fi
echo "== installing chromium"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
