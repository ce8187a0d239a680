#!/usr/bin/env bash
# Installs the source distribution into an empty environment and uses it: try-sdist.sh PYTHON SDIST
set -euo pipefail

python=$1
sdist=$2
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

"$python" -m venv "$directory/venv"
# The build is isolated like a user's, except that it reuses compiled dependencies and does not
# optimise: `make` has built the optimised wheel of the same sources before.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target} MATURIN_PEP517_ARGS="--profile dev"
"$directory/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$sdist"

cd "$directory"
venv/bin/python - <<'PROGRAM'
import numpy as np
import hyperslab as hs

data = np.arange(60, dtype="f4").reshape(6, 10)
hs.create_array("array.zarr", data=data, chunks=(4, 4))
assert np.array_equal(hs.open_array("array.zarr", mode="r")[::-1, 3], data[::-1, 3])
PROGRAM
venv/bin/hyperslab --version
venv/bin/hyperslab info array.zarr >/dev/null
venv/bin/python -m hyperslab --version >/dev/null
