#!/bin/sh
# Installs missing packages for "build", "check" and "coverage" (the arguments), or prints the command to type and fails.
set -u
missing=
cpp_has() { echo "#include <$1>" | ${CC:-cc} -E - >/dev/null 2>&1; }
need() { "$@" >/dev/null 2>&1 || missing="$missing $package"; }

for group; do
  case $group in
    build)
      package=gcc; need command -v "${CC:-cc}"
      package=re2c; need command -v re2c
      package=lemon; need command -v lemon
      package=libsimde-dev; need cpp_has simde/simde-common.h
      package=libdlpack-dev; need cpp_has dlpack/dlpack.h
      ;;
    coverage)
      package=gcovr; need command -v gcovr
      ;;
    check)
      package=clang; need command -v clang
      package=libisl-dev; need cpp_has isl/ctx.h
      if [ "$(uname -m)" != aarch64 ]; then
        package=gcc-aarch64-linux-gnu; need command -v aarch64-linux-gnu-gcc
        package=libc6-dev-arm64-cross; need test -e /usr/aarch64-linux-gnu/include/stdio.h
        package=qemu-user; need command -v qemu-aarch64
      fi
      package=python3-numpy
      need sh -c 'python3 -c "import numpy" || /usr/bin/python3 -c "import numpy"'
      package=python3-mpmath
      need sh -c 'python3 -c "import numpy, mpmath" || /usr/bin/python3 -c "import numpy, mpmath"'
      package="openmpi-bin libopenmpi-dev"; need command -v mpicc mpirun
      package=lintian; need sh -c "command -v lintian || ! command -v dpkg-deb"
      package=cmake; need command -v cmake
      package=pkg-config; need command -v pkg-config
      package=zsh; need command -v zsh
      package=fish; need command -v fish
      package=python3-venv; need python3 -c 'import ensurepip'
      package=python3-dev; need sh -c 'test -e "$(python3 -c "import sysconfig; print(sysconfig.get_path(\"include\"))")/Python.h"'
      ;;
  esac
done
[ -z "$missing" ] && exit 0

if [ "$(id -u)" = 0 ]; then sudo=; else sudo=sudo; fi
command="$sudo apt-get install -y --no-install-recommends$missing"
if command -v apt-get >/dev/null && { [ -z "$sudo" ] || sudo -n true 2>/dev/null; }; then
  echo "installing:$missing"
  log=$(mktemp)
  if { $sudo apt-get update && DEBIAN_FRONTEND=noninteractive $command; } >"$log" 2>&1; then rm -f "$log"; exit 0; fi
  tail -n 5 "$log"
  rm -f "$log"
fi
echo "missing:$missing"
echo "please type:  ${sudo:+sudo }apt-get install$missing"
case $missing in *numpy*) echo "(or for numpy:  python3 -m pip install numpy)" ;; esac
exit 1
