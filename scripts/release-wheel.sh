#!/usr/bin/env bash
# Builds the published wheel for one kind of machine: release-wheel.sh x86_64|aarch64
#
# The wheel runs with glibc 2.17 (2012) and newer, whatever this machine has: zig links it against
# that version. GCC compiles the C code: zstd compiled by clang, zig's own compiler, decodes a fifth
# slower (docs/releases.md has the numbers).
#
# To build for another kind of machine, install its Rust target and GCC (rustup target add
# aarch64-unknown-linux-gnu; on Debian: gcc-aarch64-linux-gnu).
#
# The wheel goes to build/release/. The build fails if the wheel needs a newer glibc, or a library
# that some Linux systems lack.
set -euo pipefail
cd "$(dirname "$0")/.."

machine=${1:?usage: release-wheel.sh x86_64|aarch64}
target=$machine-unknown-linux-gnu

# The C compiler: RELEASE_CC, or GCC 14, or the machine's usual GCC.
prefix=
if [[ $machine != "$(uname -m)" ]]; then prefix=$machine-linux-gnu-; fi
cc=$(type -p ${RELEASE_CC:+"$RELEASE_CC"} "${prefix}gcc-14" "${prefix}gcc" | head -n 1 || true)
if [[ -z $cc ]]; then
    echo "release-wheel.sh: found neither ${prefix}gcc-14 nor ${prefix}gcc: install one, or name a GCC for $machine in RELEASE_CC" >&2
    exit 1
fi
"$cc" --version | head -n 1

# Link the machine's unwinder. zig would link its own into the wheel. A thread that Python ends
# while the interpreter stops (`pthread_exit`) would then be unwound through Rust by two libraries
# with different structures, and the process would crash.
unwinder=$("$cc" -print-file-name=libgcc_s.so.1)
if [[ ! -f $unwinder ]]; then
    echo "release-wheel.sh: $cc has no libgcc_s.so.1" >&2
    exit 1
fi

venv=build/release-tools
if ! cmp -s requirements/release.txt "$venv/.requirements"; then
    rm -rf "$venv"
    "$(scripts/find-python.sh newest)" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --requirement requirements/release.txt
    cp requirements/release.txt "$venv/.requirements"
fi
mkdir -p build/release
rm -f build/release/*"_$machine.whl"
# `maturin` expects zig as a module of this Python.
export PATH=$PWD/$venv/bin:$PATH "CC_${target//-/_}=$cc"
options=(--release --locked --zig --auditwheel check --target "$target" --compatibility manylinux2014)
python scripts/backend.py "${options[@]}" -- -C "link-arg=$unwinder"
maturin build "${options[@]}" --interpreter "$venv/bin/python" --out build/release -- -C "link-arg=$unwinder"
ls -l build/release/*"_$machine.whl"
