#!/usr/bin/env bash
# Packages the crates as if for publication, and builds them from the packages: package-crates.sh CARGO_FLAG...
#
# Each run uses a new target directory: cargo caches unpacked sources and build results by directory
# and version, and would reuse outdated ones. Nothing is optimised, because nothing is run.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf build/package
mkdir -p build/package
export CARGO_PROFILE_DEV_DEBUG=0
cargo package "$@" --target-dir "$(mktemp -d build/package/XXXXXX)" --workspace --exclude hyperslab-python \
    --exclude hyperslab-limit --allow-dirty --quiet
