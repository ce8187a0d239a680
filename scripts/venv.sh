#!/usr/bin/env bash
# Prepares a virtual environment and prints its path: venv.sh newest|oldest|bench [WHEEL]
#
# `bench` is the environment of the newest Python plus the packages for measurements. Installs the
# pinned requirements and the wheel, if given, only if they differ from the environment's stamps. A
# second run costs nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

which=${1:?usage: venv.sh newest|oldest|bench [WHEEL]}
wheel=${2:-}

python=$(scripts/find-python.sh "${which/bench/newest}")
minor=$("$python" -c 'import sys; print(sys.version_info.minor)')
venv=.venv-3.$minor
if ((minor == 11)); then lock=requirements/py311.txt; else lock=requirements/py312.txt; fi

say() { echo "    $*" >&2; }
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

# Recreates an environment that is incomplete or whose interpreter no longer exists.
if ! "$venv/bin/python" -c 'import pip' 2>/dev/null; then
    say "creating $venv ($python)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi

install() { # LOCK STAMP
    cmp -s "$1" "$venv/$2" && return
    say "installing $1 into $venv"
    "$venv/bin/python" -m pip install --quiet --requirement "$1" >&2
    cp "$1" "$venv/$2"
}
install "$lock" .requirements
if [[ $which == bench ]]; then install requirements/bench.txt .requirements-bench; fi

if [[ -n $wheel ]]; then
    sum=$(cksum <"$wheel")
    if [[ $sum != "$(cat "$venv/.wheel" 2>/dev/null)" ]]; then
        say "installing $(basename "$wheel") into $venv"
        "$venv/bin/python" -m pip install --quiet --force-reinstall --no-deps --no-index "$wheel" >&2
        # It replaces the working tree that `make dev` has installed.
        rm -f "$venv/.develop"
        echo "$sum" >"$venv/.wheel"
    fi
fi

echo "$venv"
