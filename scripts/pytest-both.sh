#!/usr/bin/env bash
# Runs all tests on the newest Python, and the everyday lane on the oldest: pytest-both.sh NEWEST
# OLDEST [ARGUMENT...]
#
# Both Pythons load the same binary. On the oldest one only Python code can behave differently, and
# the everyday lane runs all of it, with a quarter of the generated cases: most of a case's work is
# in the binary. Forks, signals and ends of processes depend on the interpreter, so their lane runs
# there, too.
#
# Two runs at a time keep two cores busy. The first runs most tests on the newest Python. The second
# runs the oldest Python, then the lanes that mostly wait. Its output appears after the end of the
# first. If this script ends early, it stops the second run.
set -uo pipefail
# Job control, because background jobs otherwise ignore Ctrl-C, which tests send.
set -m
cd "$(dirname "$0")/.."
newest=$1 oldest=$2
shift 2
printed=$(mktemp) empty=$(mktemp)

# Runs tests, and and notes it in a file if the arguments choose none in this part (status 5).
part() {
    local status=0
    scripts/pytest.sh "$@" || status=$?
    if ((status == 5)); then
        printf 'none\n' >>"$empty"
        return 0
    fi
    return "$status"
}

second() {
    local status=0
    printf '\n==> The everyday lane on the oldest Python (%s)\n' "$oldest"
    HYPERSLAB_EXAMPLES=${HYPERSLAB_EXAMPLES:-25%} part "$oldest" -m "not kill and not servers and not differential and not slow" "$@" || status=$?
    printf '\n==> The lanes kill, servers and slow on the newest Python (%s)\n' "$newest"
    part "$newest" -m "kill or servers or slow" "$@" || status=$?
    return "$status"
}

second "$@" >"$printed" 2>&1 &
second=$!
trap 'kill -- -"$second" 2>/dev/null; rm -f "$printed" "$empty"' EXIT
status=0
part "$newest" -m "not kill and not servers and not slow" "$@" || status=$?
wait "$second" || status=$?
cat "$printed"
if [[ $(wc -l <"$empty") == 3 ]]; then
    printf 'No test was chosen.\n' >&2
    status=5
fi
exit "$status"
