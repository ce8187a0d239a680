#!/usr/bin/env bash
# Packages the crates as if for publication, and compiles the packages: package-crates.sh CARGO_FLAG...
#
# `cargo package` would compile every package and all its dependencies anew. Here the packages are one
# workspace, checked by the compiler without generating code, beside dependencies that
# `cargo doc` has left in the target directory.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
rm -rf build/package
"$cargo" package "$@" --target-dir build/package --workspace --exclude hyperslab-python --exclude hyperslab-limit \
    --allow-dirty --no-verify --quiet

# Packages name each other by version. The workspace says where these versions are. It keeps the
# profiles, so that compiled dependencies fit.
crates=build/package/workspace
mkdir -p "$crates"
for package in build/package/package/*.crate; do
    # The files get the time of now: cargo would not look at older ones again.
    tar --extract --touch --file "$package" --directory "$crates"
done
{
    sed -e 's/^members = .*/members = ["*"]/' Cargo.toml
    printf '\n[patch.crates-io]\n'
    for folder in "$crates"/*/; do
        name=$(basename "$folder")
        printf '%s = { path = "%s" }\n' "${name%-*}" "$name"
    done
} >"$crates/Cargo.toml"
cp Cargo.lock "$crates"
# Two members of the lock file are not packaged, so the file changes, though no version in it does.
CARGO_TARGET_DIR=$PWD/target "$cargo" check --workspace --quiet --manifest-path "$crates/Cargo.toml"
