#!/usr/bin/env bash
# Builds the documentation site (build/site) from docs/ and the docstrings. A warning is an error.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/site-tools
if ! cmp -s requirements/docs.txt "$venv/.requirements"; then
    rm -rf "$venv"
    "$(scripts/find-python.sh newest)" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement requirements/docs.txt
    cp requirements/docs.txt "$venv/.requirements"
fi
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --strict --quiet --clean
