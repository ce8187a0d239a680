#!/usr/bin/env bash
# Prints the path of a CPython: find-python.sh newest|oldest
#
# Accepts only interpreters that run and can create a virtual environment: a pyenv shim may exist
# and fail, and Debian has `ensurepip` in a separate package. Skips free-threaded builds, which
# cannot load the stable-ABI wheel. PYTHON=... sets the newest one directly.
set -euo pipefail

which=${1:?usage: find-python.sh newest|oldest}

# The newest minor version for which all pinned test dependencies have wheels. Newer versions are
# used only if there is no other.
tested_minor=14

probe='
import ensurepip, platform, sys, sysconfig, venv
if platform.python_implementation() != "CPython" or sys.version_info < (3, 11):
    sys.exit(1)
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.exit(1)
print(*sys.version_info[1:3], getattr(sys, "_base_executable", sys.executable))
'

if [[ -n ${PYTHON:-} && $which == newest ]]; then
    if found=$("$PYTHON" -c "$probe"); then
        echo "${found#* * }"
        exit 0
    fi
    echo "PYTHON=$PYTHON is not a CPython >= 3.11 (with the GIL) that can make a virtual environment" >&2
    exit 1
fi

candidates() {
    [[ -n ${PYTHON:-} ]] && echo "$PYTHON"
    for minor in 15 14 13 12 11; do
        type -ap "python3.$minor" || true
    done
    type -ap python3 || true
    ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python 2>/dev/null || true
}

found=$(candidates | while read -r candidate; do "$candidate" -c "$probe" </dev/null 2>/dev/null || true; done | sort -u)

if [[ -z $found ]]; then
    echo "No CPython >= 3.11 that can make a virtual environment was found." >&2
    echo "Install one (on Debian: apt install python3 python3-venv), or name it: make PYTHON=/path/to/python" >&2
    exit 1
fi

case $which in
    newest)
        tested=$(awk -v max=$tested_minor '$1 <= max' <<<"$found")
        sort -k1,1n -k2,2n <<<"${tested:-$found}" | tail -n 1
        ;;
    oldest) sort -k1,1n -k2,2nr <<<"$found" | head -n 1 ;;
    *) echo "find-python.sh: expected newest or oldest, got $which" >&2; exit 2 ;;
esac | cut -d' ' -f3-
