#!/usr/bin/env bash
# Installs what the project needs from Debian's packages, and only what is missing. Arguments name extra sets: fuzz, neon.
set -euo pipefail

packages="g++ cmake ninja-build pkg-config python3 python3-pip nlohmann-json3-dev libcli11-dev libpcre2-dev libssl-dev libfmt-dev
  libboost1.81-dev libgtest-dev libbenchmark-dev"
for extra in "$@"; do
  case "$extra" in
    fuzz) packages="$packages clang libclang-rt-dev" ;;
    neon) packages="$packages g++-aarch64-linux-gnu qemu-user googletest" ;;
    lint) packages="$packages clang-tidy clang-format" ;;
    peers) packages="$packages python3-venv" ;;
    *) echo "setup: unknown set '$extra', known: fuzz neon lint peers" >&2; exit 2 ;;
  esac
done

missing=""
for p in $packages; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q "install ok installed" || missing="$missing $p"
done
[ -z "$missing" ] && exit 0

echo "setup: installing$missing" >&2
sudo=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "setup: root is needed to install$missing" >&2; exit 1; }
  sudo="sudo"
fi
# shellcheck disable=SC2086
install() { $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2; }
install || { $sudo apt-get update -qq >&2; install; }
