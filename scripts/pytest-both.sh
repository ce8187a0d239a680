#!/usr/bin/env bash
# Runs pytest with two Pythons at once: pytest-both.sh NEWEST OLDEST [ARGUMENT...]
#
# On the oldest Python the lanes `kill` and `servers` are left out. They test the engine, and both
# Pythons load the same binary. Two runs take little longer than one. The output of the second run
# appears after the end of the first. If this script ends early, it stops the second run.
set -uo pipefail
# Job control, because background jobs otherwise ignore Ctrl-C, which tests send.
set -m
cd "$(dirname "$0")/.."
newest=$1 oldest=$2
shift 2
printed=$(mktemp)
scripts/pytest.sh "$oldest" -m "not kill and not servers" "$@" >"$printed" 2>&1 &
second=$!
trap 'kill -- -"$second" 2>/dev/null; rm -f "$printed"' EXIT
scripts/pytest.sh "$newest" "$@"
first_status=$?
printf '\n==> The same on the oldest Python (%s)\n' "$oldest"
wait "$second"
second_status=$?
cat "$printed"
exit $((first_status > second_status ? first_status : second_status))
