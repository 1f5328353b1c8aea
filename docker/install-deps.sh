#!/bin/bash
# Installs what zero3sim needs from Debian 12; does nothing when it is all there. Needs root or sudo.
# usage: docker/install-deps.sh [--build | --dev | --mpi | --torch | --cuda12 | --cuda13 | --deepspeed]   --build: to
#   compile and run; --dev: to test and check; --mpi: for --backend mpi; --torch: for --tensors torch; --cuda12, --cuda13:
#   for --backend nccl, the CUDA runtime and NCCL from PyPI (V100 wants 12); --deepspeed: what scripts/deepspeed-env wants;
#   default: the first four.
set -euo pipefail

build=(g++ cmake ninja-build ccache libyaml-cpp-dev libcli11-dev libfmt-dev nlohmann-json3-dev)
dev=(libgtest-dev libgmock-dev libbenchmark-dev clang libclang-rt-14-dev clang-format clang-tidy valgrind python3-yaml)
mpi=(libopenmpi-dev openmpi-bin)
torch=(libtorch-dev)
cuda=(python3-pip)
cuda12=(nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12 nvidia-nccl-cu12) # of nvcc the headers alone
cuda13=(nvidia-cuda-runtime~=13.0 nvidia-cuda-crt~=13.0 nvidia-nccl-cu13)
deepspeed=(python3-torch python3-numpy python3-venv python3-dev numactl ninja-build g++)

case "${1:-}" in
  --build) wanted=("${build[@]}") ;;
  --dev) wanted=("${dev[@]}") ;;
  --mpi) wanted=("${mpi[@]}") ;;
  --torch) wanted=("${torch[@]}") ;;
  --cuda12 | --cuda13) wanted=("${cuda[@]}") ;;
  --deepspeed) wanted=("${deepspeed[@]}") ;;
  "") wanted=("${build[@]}" "${dev[@]}" "${mpi[@]}" "${torch[@]}") ;;
  *) sed -n '3,6s/^# *//p' "$0" >&2; exit 2 ;;
esac

as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)

missing=()
for package in "${wanted[@]}"; do
  dpkg -s "$package" 2>/dev/null | grep -q '^Status: install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "install-deps: installing ${missing[*]}" >&2
  "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=600 update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -qq -y \
    --no-install-recommends "${missing[@]}" > /dev/null
fi

case "${1:-}" in # where cmake/Optional.cmake looks
  --cuda12) packages=("${cuda12[@]}") ;;
  --cuda13) packages=("${cuda13[@]}") ;;
  *) exit 0 ;;
esac
folder=/opt/zero3sim-${1#--}
[ ! -e "$folder/nvidia/nccl" ] || exit 0
echo "install-deps: installing ${packages[*]} into $folder" >&2
"${as_root[@]}" python3 -m pip install -q --no-deps --no-compile --target "$folder" "${packages[@]}"
