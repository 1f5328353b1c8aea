#!/bin/bash
# Installs what zero3sim needs from Debian 12; does nothing when it is all there. Needs root or sudo.
# usage: docker/install-deps.sh [--build | --dev | --mpi | --deepspeed]   --build: to compile and run; --dev: to test and
#   check; --mpi: for --backend mpi; --deepspeed: what scripts/deepspeed-env wants; default: the first three.
set -euo pipefail

build=(g++ cmake ninja-build ccache libyaml-cpp-dev libcli11-dev libfmt-dev nlohmann-json3-dev)
dev=(libgtest-dev libgmock-dev libbenchmark-dev clang libclang-rt-14-dev clang-format clang-tidy valgrind python3-yaml)
mpi=(libopenmpi-dev openmpi-bin)
deepspeed=(python3-torch python3-numpy python3-venv python3-dev numactl ninja-build g++)

case "${1:-}" in
  --build) wanted=("${build[@]}") ;;
  --dev) wanted=("${dev[@]}") ;;
  --mpi) wanted=("${mpi[@]}") ;;
  --deepspeed) wanted=("${deepspeed[@]}") ;;
  "") wanted=("${build[@]}" "${dev[@]}" "${mpi[@]}") ;;
  *) sed -n '3,4s/^# *//p' "$0" >&2; exit 2 ;;
esac

missing=()
for package in "${wanted[@]}"; do
  dpkg -s "$package" 2>/dev/null | grep -q '^Status: install ok installed' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
echo "install-deps: installing ${missing[*]}" >&2
"${as_root[@]}" apt-get -o DPkg::Lock::Timeout=600 update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -qq -y \
  --no-install-recommends "${missing[@]}" > /dev/null
