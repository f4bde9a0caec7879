#!/bin/sh
# Installs JAX and pytest into a folder, with the newest Python of this machine that it can be had for.
#
#   tests/jax.sh FOLDER [VERSION]   that version, or the newest; "oldest" is the oldest one that pkc.pallas takes
#   tests/jax.sh --pythons          prints the Pythons of this machine from 3.9 on, one for each minor version, the newest first
cd "$(dirname "$0")/.." || exit 1

pythons() {
  for python in "${PYTHON:-python3}" /usr/bin/python3 /usr/bin/python3.[0-9] /usr/bin/python3.[0-9][0-9] /usr/local/bin/python3.[0-9][0-9] \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3; do
    "$python" -c 'import ensurepip, sys, venv
if sys.version_info >= (3, 9): print("%d.%02d" % sys.version_info[:2], sys.executable)' 2>/dev/null
  done | sort -r -u -k 1,1 | cut -d ' ' -f 2-
}

[ "$1" = --pythons ] && { pythons; exit 0; }
folder=$1 wanted=jax
case ${2:-} in
'') ;;
oldest)
  oldest=$(${PYTHON:-python3} -c 'import runpy
print(next(row.tested for row in runpy.run_path("python/pkc/_versions.py")["TABLE"] if row.pallas))') || exit 1
  wanted=jax==$oldest
  ;;
*) wanted=jax==$2 ;;
esac
pythons | while read -r python; do
  [ "$("$folder/bin/python" --version 2>/dev/null)" = "$("$python" --version)" ] || rm -rf "$folder"
  [ -x "$folder/bin/python" ] || "$python" -m venv "$folder" || continue
  if "$folder/bin/python" -m pip --disable-pip-version-check install --quiet --retries 1 --upgrade numpy pytest "$wanted" 2>"$folder/log"; then
    touch "$folder/installed"
    break
  fi
  cat "$folder/log" >&2
done
[ -e "$folder/installed" ]
