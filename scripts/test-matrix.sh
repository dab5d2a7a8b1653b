#!/bin/bash
# Runs `make test` on every Python from 3.11 on that is on PATH or in pyenv, each in an
# environment of its own, and says at the end how each did.
set -u
cd "$(dirname "$0")/.."

candidates() {
    compgen -c python3. | sort -u | while read -r name; do type -p "$name"; done
    ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3 2> /dev/null
}

version_of() { # PROGRAM: 3.12, or nothing when it does not run or is too old
    "$1" -c 'import sys, venv
if sys.version_info >= (3, 11): print("%d.%d" % sys.version_info[:2])' 2> /dev/null
}

declare -A python result
while read -r program; do
    version=$(version_of "$program") && [ -n "$version" ] || continue
    python[$version]=${python[$version]:-$program}
done < <(candidates)

status=0
for version in $(printf '%s\n' "${!python[@]}" | sort -V); do
    echo "== Python $version: ${python[$version]}"
    if "${MAKE:-make}" test PYTHON="${python[$version]}" VENV=".venv-$version"; then
        result[$version]=passed
    else
        result[$version]=FAILED
        status=1
    fi
done

for version in $(printf '%s\n' "${!result[@]}" | sort -V); do
    echo "Python $version: ${result[$version]}"
done
[ ${#result[@]} -gt 0 ] || { echo "no Python from 3.11 on was found" >&2; exit 1; }
exit $status
