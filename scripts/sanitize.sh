#!/usr/bin/env bash
# Runs the Rust tests of codec, array and store under a sanitizer:
#
#     sanitize.sh address|thread [CRATE [TEST FILTER]]
#
# Includes the C code of the codecs (libdeflate, zstd, lz4).
#
# Needs no nightly toolchain: the runtimes come with the stable one, and RUSTC_BOOTSTRAP=1 allows
# their use. The C compiler must support -fsanitize (gcc with its libasan headers, clang).
#
# AddressSanitizer works with an uninstrumented standard library, because it replaces malloc.
# ThreadSanitizer does not: it would miss the library's atomics (contended locks, the last owner of
# an Arc, the end of scoped threads) and report hundreds of false races. For ThreadSanitizer the
# library is therefore built from source, which rustup installs.
set -euo pipefail
sanitizer=${1:?address or thread}
crate=${2:-}
filter=${3:-}

host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTC_BOOTSTRAP=1 CARGO_PROFILE_DEV_DEBUG=1
export RUSTFLAGS="-Zsanitizer=$sanitizer -Cunsafe-allow-abi-mismatch=sanitizer -Cforce-frame-pointers=yes"
cflags="-fsanitize=$sanitizer -fno-omit-frame-pointer -g1"
if [[ $sanitizer == address ]]; then
    # gcc makes zstd's constant table `getAllMatchesFns` a global, but marks it as out of scope at
    # the end of its block. The report calls one address both.
    cflags+=' -fno-sanitize-address-use-after-scope'
fi
declare -x "CFLAGS_${host//-/_}=$cflags"
# A separate target directory, because the flags differ from every other build.
export CARGO_TARGET_DIR=target/sanitize/$sanitizer
# libdeflate includes a template twice, so two C files have the same table. This is no violation.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0:detect_odr_violation=0:allocator_may_return_null=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=0:die_after_fork=0}
# Fewer generated cases: these builds are ten times slower.
export PROPTEST_CASES=${PROPTEST_CASES:-16}
if [[ $sanitizer == thread ]]; then
    # Skips tests that race on purpose.
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
