#!/bin/sh
# Installs the peers of `make bench` into the given folder: NumPy, PyTorch, JAX, MKL. Each may be missing afterwards.
set -u
folder=$1
wheels=https://download.pytorch.org/whl/cpu # PyTorch without CUDA; the one that PyPI has for Linux takes 7 GB
room=9000                                   # MB wanted for that one

"${PYTHON:-python3}" -m venv "$folder" || exit 1
pip() { "$folder/bin/pip" --disable-pip-version-check "$@"; }
free() { df -Pm "$folder" | awk 'NR == 2 { print $4 }'; }

pip install numpy || exit 1
pip install jax || echo 'bench-peers: no JAX here'
pip install mkl || echo 'bench-peers: no MKL here'
if ! pip install --retries 0 --timeout 20 --index-url "$wheels" torch; then
  if [ "$(free)" -lt "$room" ]; then
    echo "bench-peers: no PyTorch: it would need $room MB, $(free) are free"
  else
    pip install torch || echo 'bench-peers: no PyTorch here'
  fi
fi
echo 'More peers on Debian: apt-get install libdnnl-dev libopenblas-dev libblis-dev'
