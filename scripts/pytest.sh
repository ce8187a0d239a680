#!/usr/bin/env bash
# Runs pytest on all tests, also the tests that it leaves out by default.
#
#     pytest.sh PYTHON [ARGUMENT...]
#
# Gives pytest its own folder for temporary files, and removes the folder at the end.
#
# pytest alone keeps the files of the last three runs and removes older ones at the end of a run.
# The run fails if it cannot remove them, for example a very deep tree of folders from a killed run.
set -uo pipefail
python=$1
shift
folder=$(mktemp -d)
# Tests that run as another user need access.
chmod 755 "$folder"
trap 'rm -rf "$folder"' EXIT
PYTEST_DEBUG_TEMPROOT=$folder "$python" -m pytest -m "" "$@"
