#!/usr/bin/env bash
# Runs one step under a heading, says how long it took, and makes its failure easy to see:
# step.sh TITLE COMMAND [ARGUMENT...]
set -uo pipefail

title=$1
shift
bold='' red='' green='' reset=''
if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
    bold=$'\e[1m' red=$'\e[31m' green=$'\e[32m' reset=$'\e[0m'
fi

printf '\n%s==> %s%s\n' "$bold" "$title" "$reset"
start=$SECONDS
"$@"
status=$?
if ((status == 0)); then
    printf '%s    ok%s (%d s)\n' "$green" "$reset" $((SECONDS - start))
else
    printf '\n%s==> FAILED: %s%s (exit status %d)\n    %s\n' "$red" "$title" "$reset" "$status" "$*" >&2
fi
exit "$status"
