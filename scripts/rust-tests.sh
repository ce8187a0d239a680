#!/usr/bin/env bash
# Runs the Rust tests, which clippy compiles: rust-tests.sh CARGO_FLAG...
#
# `cargo clippy` compiles nothing that can run, so dependencies would be compiled a second time for
# the tests. Here clippy's driver takes rustc's place for the crates of the workspace. It reports its
# lints, and then generates code like rustc (without optimising MIR, which only slows the tests down).
set -euo pipefail
cd "$(dirname "$0")/.."
# The form in which `cargo clippy` passes arguments on to its driver.
export RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__
exec "${CARGO:-cargo}" test "$@" --workspace --quiet
