#!/usr/bin/env bash
# Runs all tests, those left out by default too, with a folder of its own for temporary files, and removes that:
# pytest.sh PYTHON [ARGUMENT...]
#
# By itself pytest keeps the files of the last three runs, and removes older ones at the end of a
# run. If it cannot, the run fails. It cannot where a killed run left a very deep tree of folders.
set -uo pipefail
python=$1
shift
folder=$(mktemp -d)
# Tests that work as another user have to get there.
chmod 755 "$folder"
trap 'rm -rf "$folder"' EXIT
PYTEST_DEBUG_TEMPROOT=$folder "$python" -m pytest -m "" "$@"
