#!/usr/bin/env bash
# Runs a tool in its pinned version, as `make` does: tool.sh NAME [ARGUMENT...]
set -euo pipefail
cd "$(dirname "$0")/.."
exec "$(scripts/venv.sh newest)/bin/$1" "${@:2}"
