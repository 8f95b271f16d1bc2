#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# loco-log: what it says of log files that are whole, torn, damaged, in use or none; what it prints of them;
# what it cuts. Speaks TAP.
set -u
: "${builddir:=.}"
work=$(mktemp -d "${TMPDIR:-/tmp}/loco-log.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
tool=$builddir/tools/loco-log
f=$work/weather.log
export LC_ALL=C
n=0
failed=0

# status WANTED TITLE PATTERN COMMAND...: it ends so, and a line of what it prints matches (grep -E).
status() {
    wanted=$1 title=$2 pattern=$3
    shift 3
    "$@" >"$work/out" 2>"$work/err" </dev/null
    got=$?
    n=$((n + 1))
    if [ $got -eq "$wanted" ] && cat "$work/out" "$work/err" | grep -q -E -e "$pattern"; then
        echo "ok $n - $title"
    else
        sed 's/^/# /' "$work/out" "$work/err" | tail -n 20
        echo "not ok $n - $title: status $got, not $wanted"
        failed=1
    fi
}

fresh() { rm -f "$f"; "$builddir/tests/stress/logs" --write "$1" "$f"; }

# spoil OFFSET: a byte there becomes another one.
spoil() { printf '\377' | dd of="$f" bs=1 seek="$1" conv=notrunc 2>/dev/null; }

# Where record N of these begins: 56 bytes, then 40 and the text, rounded up to 8.
at() { echo $((56 + ($1 - 1) * 56)); }

fresh 9
status 0 "list" ': topic weather, 9 records, 1 to 9, 81 bytes, 1970-01-01T00:00:01\.0+Z to 1970-01-01T00:00:09\.0+Z$' \
    "$tool" list "$f"
status 0 "check" ': 9 records, all whole$' "$tool" check "$f"
status 0 "dump: text" '^3 1970-01-01T00:00:03\.0+Z rank 0, 9 bytes: sample 3\\n$' "$tool" dump "$f"
status 0 "dump: hex" '^  00000000  73 61 6d 70 6c 65 20 33 0a +sample 3\.$' "$tool" dump --format hex "$f"
"$tool" dump --format raw --from 4 --to 6 "$f" >"$work/raw"
printf 'sample 4\nsample 5\nsample 6\n' >"$work/wanted"
status 0 "dump: raw, some records" same sh -c "cmp '$work/raw' '$work/wanted' && echo same"
status 3 "dump to a full disk" 'cannot write: No space left' sh -c "'$tool' dump '$f' >/dev/full"
status 0 "nothing to cut" ': nothing to cut$' "$tool" cut "$f"

cp "$f" "$work/whole"
truncate -s -5 "$f"
status 0 "list of a torn file" 'torn at its end$' "$tool" list "$f"
status 0 "check of a torn file" '51 bytes at the end, from offset 504 on, are the beginning of record 9' "$tool" check "$f"
status 0 "cut of a torn file" ': cut at offset 504, 51 bytes$' "$tool" cut "$f"
status 0 "then all is whole" ': 8 records, all whole$' "$tool" check "$f"

cp "$work/whole" "$f"
spoil $(($(at 4) + 44))
status 1 "list of a damaged file" ', DAMAGED$' "$tool" list "$f"
status 1 "check of a damaged file" \
    "DAMAGED from offset $(at 4) to $(at 5): record 4 should be there; 1 records are lost, and number 5 follows" \
    "$tool" check "$f"
status 1 "dump goes on behind damage" '^9 .*sample 9' "$tool" dump "$f"
status 1 "dump names the place" "damaged from offset $(at 4) to $(at 5), where record 4" "$tool" dump "$f"
status 1 "damage is not cut unasked" "damaged at offset $(at 4), and 5 whole records follow" "$tool" cut "$f"
status 1 "nothing was changed" '9 .*sample 9' "$tool" dump "$f"
status 0 "a cut before the damage" ": cut at offset $(at 3)," "$tool" cut --from 3 "$f"
cp "$work/whole" "$f"
spoil $(($(at 4) + 44))
status 0 "a cut of the damage" ": cut at offset $(at 4), 336 bytes" "$tool" cut --damaged "$f"
status 0 "three are left" ': 3 records, all whole$' "$tool" check "$f"
status 3 "no such record" 'has no record 7' "$tool" cut --from 7 "$f"
spoil 20
status 1 "a damaged head" 'its first bytes' "$tool" check "$f"

: >"$f"
status 3 "an empty file" 'is empty' "$tool" list "$f"
echo hello >"$f"
status 3 "another file" 'is not the log of a topic' "$tool" list "$f"
status 3 "no file" 'cannot be opened: No such file' "$tool" check "$work/none"
status 3 "a folder" 'is not a regular file' "$tool" dump "$work"
mkfifo "$work/pipe"
status 3 "a pipe" 'is not a regular file' timeout 10 "$tool" dump "$work/pipe"
status 2 "no command" 'what to do\?' "$tool"
status 2 "another command" 'no command show' "$tool" show "$f"
status 2 "no file named" 'which FILE\?' "$tool" list
status 2 "two files" 'one FILE at a time' "$tool" dump "$f" "$f"
status 2 "no number" 'no number of a record: -1' "$tool" dump --from -1 "$f"
status 2 "no format" 'formats are text, hex and raw' "$tool" dump --format xml "$f"
status 2 "an option of another command" 'are of dump' "$tool" list --to 4 "$f"
status 2 "cut's option" 'is of cut' "$tool" check --damaged "$f"
status 0 "--help" '^usage: loco-log list' "$tool" --help
status 0 "--version" '^loco-log [0-9]' "$tool" --version
echo "1..$n"
exit $failed
