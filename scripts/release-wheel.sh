#!/usr/bin/env bash
# Builds the wheel that is published for one kind of machine: release-wheel.sh x86_64|aarch64
#
# zig's C compiler and linker make it for glibc 2.17 and newer, for both kinds on any machine. The
# wheel goes to build/release/. It is refused where it asks for a newer glibc, or for a library that
# not every Linux has.
set -euo pipefail
cd "$(dirname "$0")/.."

machine=${1:?usage: release-wheel.sh x86_64|aarch64}
venv=build/release-tools
if ! cmp -s requirements/release.txt "$venv/.requirements"; then
    rm -rf "$venv"
    "$(scripts/find-python.sh newest)" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement requirements/release.txt
    cp requirements/release.txt "$venv/.requirements"
fi
mkdir -p build/release
rm -f build/release/*"_$machine.whl"
# `maturin` looks for zig as the module of this Python.
PATH=$PWD/$venv/bin:$PATH "$venv/bin/maturin" build --release --locked --zig --auditwheel check \
    --target "$machine-unknown-linux-gnu" --compatibility manylinux2014 \
    --interpreter "$venv/bin/python" --out build/release
ls -l build/release/*"_$machine.whl"
