# SPDX-License-Identifier: BSD-3-Clause
# What the scripts share that break the project in one place after the other: sourced.
#
#   begin SOURCE BUILD [NAME...]    a copy of the sources in $work; these rows only, or all. The
#                                   script runs once per core, each time for its share of the rows
#   ours                            true for what this run's share has; to be asked once of each
#   each_row TABLE                  for each row calls mutate, with $name $file $expression $test
#   finish                          totals; false if something failed
#
# A script's mutate calls break_file, bad or good.

# Set by begin: of these, sources are copied.
: "${FOLDERS:=include runtime channels}"

begin() {
    [ -n "${MUTATIONS_SHARE-}" ] || share "$@"
    src=$(cd "$1" && pwd) build=$(cd "$2" && pwd) || exit 2
    shift 2
    chosen=" $* "
    work=$(mktemp -d "${TMPDIR:-/tmp}/loco-mutations.XXXXXX") || exit 2
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM
    for folder in $FOLDERS; do
        cp -R "$src/$folder" "$work/"
    done
    passed=0 failed=0 skipped=0 number=0 asked=0
}

# As many runs of this script as there are cores, or JOBS, and one stream of what they say, line by
# line: who waits for it sees how far it is.
share() {
    : "${JOBS:=$(nproc 2>/dev/null || echo 1)}"
    i=0
    while [ $i -lt "$JOBS" ]; do
        MUTATIONS_SHARE=$i JOBS=$JOBS "${SHELL:-/bin/sh}" "$0" "$@" &
        i=$((i + 1))
    done | join_shares
    exit
}

join_shares() {
    passed=0 failed=0 skipped=0 number=0 ended=0
    while IFS= read -r line; do
        case $line in
        [0-9]*' passed, '*' failed, '*' skipped')
            read -r p _ f _ s _ <<END
$line
END
            passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
            ended=$((ended + 1)) ;;
        1..[0-9]*) ;;
        'ok '* | 'not ok '*)
            number=$((number + 1))
            echo "${line%%ok *}ok $number ${line#*ok [0-9]* }" ;;
        *) echo "$line" ;;
        esac
    done
    if [ $ended -ne "$JOBS" ] || [ $number -eq 0 ]; then
        number=$((number + 1)) failed=$((failed + 1))
        echo "not ok $number - all shares of the rows come to their end, and have some"
    fi
    finish
}

ours() {
    asked=$((asked + 1))
    [ $((asked % JOBS)) -eq "$MUTATIONS_SHARE" ]
}

# What must be compiled anew for a file: itself, or, of a header, each of the library's sources, and
# of those SOURCES, that has it in, by way of other headers too. $prefix is how the library's objects
# begin; $includes and $CC are those of the build.
affected() { # FILE [SOURCE...]
    file=$1
    shift
    case $file in *.c) echo "$work/$file"; return ;; esac
    find "$work/runtime" "$work/channels" -name '*.c' | while read -r s; do
        of=${s#"$work"/} of=$build/${of%/*} name=$prefix-$(basename "$s" .c).o
        if [ -f "$of/.libs/$name" ] || [ -f "$of/$name" ]; then includes_it "$s"; fi
    done
    for s; do includes_it "$s"; done
}

# The source, if it does, or if the compiler cannot tell.
includes_it() {
    deps=$($CC -std=gnu11 $includes ${CRITERION_CFLAGS-} -MM "$1" 2>>"$work/log") \
        || deps=/${file##*/}
    case "$deps " in *"/${file##*/}"[!a-z_]*) echo "$1" ;; esac
}

say() { # ok|not ok, NAME, WHY
    number=$((number + 1))
    echo "$1 $number - $2$3"
}

good() { # WHY
    say ok "$name" ": $1"
    passed=$((passed + 1))
}

bad() { # WHY
    say "not ok" "$name" ": $1"
    sed 's/^/# /' "$work/log" | tail -n 20
    failed=$((failed + 1))
}

# $file in $work becomes the mutant. A pattern that changes nothing is a failure.
break_file() {
    sed "$expression" "$src/$file" >"$work/$file"
    if cmp -s "$src/$file" "$work/$file"; then
        bad "the pattern changes nothing in $file"
        return 1
    fi
}

each_row() {
    while IFS='|' read -r name file rest; do
        name=$(echo "$name" | tr -d ' ')
        case $name in ''|\#*) continue ;; esac
        [ "$chosen" = "  " ] || case $chosen in *" $name "*) ;; *) continue ;; esac
        ours || continue
        file=$(echo "$file" | tr -d ' ')
        # The expression may hold a bar: it ends at the last one.
        expression=$(echo "${rest%|*}" | sed 's/^ *//; s/ *$//')
        test=$(echo "${rest##*|}" | sed 's/^ *//; s/ *$//')
        : >"$work/log"
        cp "$src/$file" "$work/$file"
        mutate </dev/null
        cp "$src/$file" "$work/$file"
    done <"$1"
}

finish() {
    echo "1..$number"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}
