#!/usr/bin/env bash
# Runs pytest with a folder of its own for temporary files, and removes that: pytest.sh PYTHON [ARGUMENT...]
#
# By itself pytest keeps the files of the last three runs, and a run fails in its end if it cannot
# remove older ones: a tree of folders that a killed run left is too deep for Python's rmtree.
set -uo pipefail
python=$1
shift
folder=$(mktemp -d)
# Tests that work as another user have to get there.
chmod 755 "$folder"
trap 'rm -rf "$folder"' EXIT
PYTEST_DEBUG_TEMPROOT=$folder "$python" -m pytest "$@"
