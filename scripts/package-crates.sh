#!/usr/bin/env bash
# Packages the crates as if for publication, and builds them from the packages: package-crates.sh CARGO_FLAG...
#
# Each run uses a new target directory: cargo caches unpacked sources and build results by directory
# and version, and would reuse outdated ones. The directory starts with links to the files of the
# tests' build. Cargo takes the dependencies from there. It builds the crates of this repository
# anew, because packages lie at other paths.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf build/package
mkdir -p build/package
target=$(mktemp -d build/package/XXXXXX)
if [[ -d target/debug ]]; then
    cp -al target/debug "$target/debug"
fi
cargo package "$@" --target-dir "$target" --workspace --exclude hyperslab-python --exclude hyperslab-limit \
    --allow-dirty --quiet
