#!/usr/bin/env bash
# Runs all tests on the newest Python, and the everyday lane on the oldest: pytest-both.sh NEWEST
# OLDEST [ARGUMENT...]
#
# Both Pythons load the same binary. On the oldest one only Python code can behave differently, and
# the everyday lane runs all of it, with a tenth of the generated cases: most of a case's work is
# in the binary. Forks, signals and ends of processes depend on the interpreter, so their lane runs
# there, too.
#
# Tests wait for about half of their time: for processes, servers and disks. Four runs at a time keep
# two cores busy. The output of the first run appears at once, that of the others at the end. If this
# script ends early, it stops the other runs.
set -uo pipefail
# Job control, because background jobs otherwise ignore Ctrl-C, which tests send.
set -m
cd "$(dirname "$0")/.."
newest=$1 oldest=$2
shift 2
printed=$(mktemp -d)
runs=()
trap 'for run in "${runs[@]}"; do kill -- -"$run" 2>/dev/null; done; rm -rf "$printed"' EXIT

# Runs tests, and notes in a file if the arguments choose none of them (status 5).
part() {
    local status=0
    printf '\n==> %s\n' "$1"
    shift
    scripts/pytest.sh "$@" || status=$?
    if ((status == 5)); then
        printf 'none\n' >>"$printed/empty"
        return 0
    fi
    return "$status"
}

# The same as a run of its own, whose output waits.
start() {
    part "$@" >"$printed/${#runs[@]}" 2>&1 &
    runs+=("$!")
}

usual="not kill and not servers and not slow"
HYPERSLAB_SHARE=2/2 start "Most tests on the newest Python ($newest): second half" "$newest" -m "$usual" "$@"
HYPERSLAB_EXAMPLES=${HYPERSLAB_EXAMPLES:-10%} start "The everyday lane on the oldest Python ($oldest)" \
    "$oldest" -m "$usual and not differential" "$@"
start "The lanes kill, servers and slow on the newest Python" "$newest" -m "kill or servers or slow" "$@"
status=0
HYPERSLAB_SHARE=1/2 part "Most tests on the newest Python ($newest): first half" "$newest" -m "$usual" "$@" || status=$?
for number in "${!runs[@]}"; do
    wait "${runs[$number]}" || status=$?
    cat "$printed/$number"
done
if [[ -e $printed/empty && $(wc -l <"$printed/empty") == 4 ]]; then
    printf 'No test was chosen.\n' >&2
    status=5
fi
exit "$status"
