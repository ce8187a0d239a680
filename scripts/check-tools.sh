#!/usr/bin/env bash
# Reports missing tools before the build: Rust toolchain, formatter, linter, C compiler. Also names
# the optional tools without which some tests are skipped.
set -uo pipefail

need_minor=89
missing=0
complain() {
    echo "    missing: $1" >&2
    missing=1
}

if version=$(cargo --version 2>/dev/null); then
    minor=$(sed -E 's/^cargo 1\.([0-9]+)\..*/\1/' <<<"$version")
    if ((minor < need_minor)); then
        complain "Rust >= 1.$need_minor (found $version); rustup update, or see https://rustup.rs"
    fi
    cargo fmt --version >/dev/null 2>&1 || complain "rustfmt: rustup component add rustfmt"
    cargo clippy --version >/dev/null 2>&1 || complain "clippy: rustup component add clippy"
else
    complain "a Rust toolchain: see https://rustup.rs"
fi
command -v "${CC:-cc}" >/dev/null || complain "a C compiler (on Debian: apt install build-essential)"
for tool in strace:"system calls" valgrind:"instructions"; do
    command -v "${tool%%:*}" >/dev/null || echo "    not there: ${tool%%:*}; no ${tool#*:} are counted by the tests" >&2
done
exit $missing
