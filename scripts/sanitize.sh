#!/usr/bin/env bash
# Runs the Rust tests of codec, array and store under a sanitizer, the C code of the codecs
# (libdeflate, zstd, lz4) included:
#
#     sanitize.sh address|thread [CRATE [TEST FILTER]]
#
# Needs no nightly toolchain: the runtimes come with the stable one, and RUSTC_BOOTSTRAP=1 lets it
# use them. The C compiler must know -fsanitize (gcc with its libasan headers, clang).
#
# AddressSanitizer sees the memory of the standard library though that is not instrumented, because
# its allocator takes the place of malloc. ThreadSanitizer does not see the atomics inside of it
# (contended locks, the last owner of an Arc, the end of scoped threads) and would report hundreds
# of races that are none. So for it the library is built as well, from its source, which rustup
# installs.
set -euo pipefail
sanitizer=${1:?address or thread}
crate=${2:-}
filter=${3:-}

host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTC_BOOTSTRAP=1 CARGO_PROFILE_DEV_DEBUG=1
export RUSTFLAGS="-Zsanitizer=$sanitizer -Cunsafe-allow-abi-mismatch=sanitizer -Cforce-frame-pointers=yes"
cflags="-fsanitize=$sanitizer -fno-omit-frame-pointer -g1"
if [[ $sanitizer == address ]]; then
    # gcc makes zstd's constant table `getAllMatchesFns` a global and still marks it as gone where
    # its block ends: the report calls one address a global and out of scope.
    cflags+=' -fno-sanitize-address-use-after-scope'
fi
declare -x "CFLAGS_${host//-/_}=$cflags"
# A directory of its own: these are other flags than those of every other build.
export CARGO_TARGET_DIR=target/sanitize/$sanitizer
# libdeflate has one table in two C files, by including a template twice: no violation of anything.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0:detect_odr_violation=0:allocator_may_return_null=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=0:die_after_fork=0}
# Cases that hypothesis-like tests generate: fewer, these builds are ten times slower.
export PROPTEST_CASES=${PROPTEST_CASES:-16}
if [[ $sanitizer == thread ]]; then
    # Tests whose very point is a race.
    export HYPERSLAB_NO_RACES=1
fi

std=()
if [[ $sanitizer == thread ]]; then
    if [[ ! -d $(rustc --print sysroot)/lib/rustlib/src/rust/library ]]; then
        rustup component add rust-src
    fi
    std=(-Zbuild-std)
fi

for each in ${crate:-hyperslab-codec hyperslab-store hyperslab-array}; do
    printf '    %s: %s\n' "$sanitizer" "$each"
    cargo test --locked --quiet "${std[@]}" --target "$host" --package "$each" --lib --tests -- $filter
done
