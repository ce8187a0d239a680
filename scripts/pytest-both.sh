#!/usr/bin/env bash
# Runs pytest with two Pythons at once, which takes little longer than with one: pytest-both.sh NEWEST OLDEST
# [ARGUMENT...]. What the second one prints comes when the first is done. If one is stopped, so is the other.
set -uo pipefail
# With job control: otherwise what runs in the background ignores Ctrl-C, which tests send.
set -m
cd "$(dirname "$0")/.."
newest=$1 oldest=$2
shift 2
printed=$(mktemp)
scripts/pytest.sh "$oldest" "$@" >"$printed" 2>&1 &
second=$!
trap 'kill -- -"$second" 2>/dev/null; rm -f "$printed"' EXIT
scripts/pytest.sh "$newest" "$@"
first_status=$?
printf '\n==> The same on the oldest Python (%s)\n' "$oldest"
wait "$second"
second_status=$?
cat "$printed"
exit $((first_status > second_status ? first_status : second_status))
