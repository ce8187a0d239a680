#!/usr/bin/env bash
# Installs the wheel into an empty environment and uses it: try-wheel.sh PYTHON WHEEL
set -euo pipefail

python=$1
wheel=$2
script=$(cd "$(dirname "$0")" && pwd)/try_wheel.py
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

"$python" -m venv "$directory/venv"
"$directory/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel"
cd "$directory"
venv/bin/python "$script"
venv/bin/python -m hyperslab --version >/dev/null
