#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The user's guide and the manual pages say what the programs do: every tunable, info key, message,
# tool, option and public function is there, and the guide's programs compile, run and print what it
# says. Speaks TAP.
set -u
: "${srcdir:=.}" "${builddir:=.}"
srcdir=$(cd "$srcdir" && pwd) || exit 1
builddir=$(cd "$builddir" && pwd) || exit 1
work=$(mktemp -d "${TMPDIR:-/tmp}/loco-docs.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
. "$srcdir/tests/guide.sh"
guide=$srcdir/docs/guide.md
page7=$srcdir/docs/osc_loco.7
man3=$builddir/docs/man3
awk=${AWK:-awk}
n=0
failed=0

# check TITLE FILE: passes if FILE, a list of what is wrong, is empty.
check() {
    n=$((n + 1))
    if [ -s "$2" ]; then
        echo "not ok $n - $1: $(tr '\n' ';' <"$2" | cut -c -2000)"
        failed=1
    else
        echo "ok $n - $1"
    fi
}

skip() {
    n=$((n + 1))
    echo "ok $n - $1 # SKIP $2"
}

# enough LEAST FILE: a list that is shorter means that this script does not find things any more.
enough() { [ "$(wc -l <"$2")" -ge "$1" ] || { echo "$2 has under $1 lines" >&2; exit 1; }; }

# missing FILE < lines: those that do not occur in FILE.
missing() {
    while IFS= read -r line; do
        grep -qF -e "$line" "$1" || printf '%s\n' "$line"
    done
}

# Roff without its marks.
plain() { sed -e 's/\\f[A-Z]//g' -e 's/\\-/-/g' -e 's/\\&//g' "$@"; }

# ---- tunables and info keys ----

for name in $(env | sed -n 's/^\(LOCO_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
"$builddir/tools/loco-info" | sed -n 's/^  \(LOCO_[A-Z_]*\) *\([^ ]*\) .*/\1 \2/p' >"$work/tunables"
enough 10 "$work/tunables"
while read -r name default; do
    grep -qF "| \`$name\` | \`$default\` |" "$guide" || echo "$name, default $default"
done <"$work/tunables" >"$work/bad"
check "each tunable and its default is in the guide's table" "$work/bad"
sed -n 's/^| `\(LOCO_[A-Z_]*\)` | .*/\1/p' "$guide" | while read -r name; do
    grep -q "^$name " "$work/tunables" || echo "$name"
done >"$work/bad"
check "the guide's table has no other tunables" "$work/bad"
plain "$page7" >"$work/page7"
sed 's/ .*//; s/^/osc_/' "$work/tunables" | tr 'A-Z' 'a-z' | missing "$work/page7" >"$work/bad"
check "each tunable is in osc_loco(7) as an MCA variable" "$work/bad"

awk '/key_name\[KEYS\] = / { on = 1 } on { print } on && /};/ { exit }' \
    "$srcdir/osc_loco/osc_loco_info.c" | grep -o '"[a-z_]*"' | tr -d '"' >"$work/keys"
enough 7 "$work/keys"
sed 's/.*/`&`/' "$work/keys" | missing "$guide" >"$work/bad"
missing "$work/page7" <"$work/keys" >>"$work/bad"
check "each info key is in the guide and in osc_loco(7)" "$work/bad"

# ---- messages ----

# The texts of all messages of errors, warnings and information, "..." for what is filled in.
messages() {
    "$awk" '
    function end(    s, first, all, between) {
        if (!on)
            return
        on = 0
        s = call
        for (first = 1; match(s, /"([^"\\]|\\.)*"/); first = 0) {
            between = substr(s, 1, RSTART - 1)
            if (!first && between ~ /^[ \t]*[A-Z_]+[ \t]*$/)
                all = all "..."         # a macro that is a text
            else if (!first && between !~ /^[ \t]*$/)
                break
            all = all substr(s, RSTART + 1, RLENGTH - 2)
            s = substr(s, RSTART + RLENGTH)
        }
        if (first)
            return
        gsub(/\\"/, "\"", all)
        gsub(/%[-+ #0-9.*]*[hlzjt]*[a-zA-Z]/, "...", all)
        while (gsub(/[.][.][.][.]+/, "...", all))
            ;
        print all
    }
    FNR == 1 { end() }
    {
        line = $0
        if (!on && match(line, /(LOCI_LOG|[^_a-z]loci_log|opal_output|opal_output_verbose)[(]/)) {
            on = 1
            call = ""
            line = substr(line, RSTART)
        }
        if (on)
            call = call line
        if (line ~ /[)];[ \t]*$/)
            end()
    }
    END { end() }' "$@"
}

messages "$srcdir"/runtime/*.c "$srcdir"/runtime/*/*.c "$srcdir"/runtime/fabric/link/*.c \
    "$srcdir"/runtime/fabric/port/*.c "$srcdir"/runtime/fabric/shm/*.c \
    "$srcdir"/runtime/fabric/tcp/*.c "$srcdir"/runtime/fabric/verbs/*.c \
    "$srcdir"/channels/*/*.c "$srcdir"/channels/*/*/*.c \
    "$srcdir"/osc_loco/*.c >"$work/messages"
enough 30 "$work/messages"
sed 's/.*/`&`/' "$work/messages" | missing "$guide" >"$work/bad"
check "each message of the library is in the guide's table (... for what is filled in)" "$work/bad"
sed -n 's/^ *case LOCO_ERR_.*return "\(.*\)";/\1/p' "$srcdir/runtime/status.c" >"$work/statuses"
enough 10 "$work/statuses"
missing "$guide" <"$work/statuses" >"$work/bad"
check "what each error status says is in the guide" "$work/bad"

sed -n 's/^noinst_PROGRAMS += //p' "$srcdir/mpi_examples/Makefile.include" | tr ' ' '\n' | sed 's|%D%/||' >"$work/examples"
enough 10 "$work/examples"
sed -e :a -e '/\\$/N; s/\\\n//; ta' "$srcdir/mpi_examples/examples.mk" | sed -n 's/^programs = //p' | tr -s ' \t' '\n\n' \
    >"$work/made"
missing "$work/made" <"$work/examples" >"$work/bad"
check "the installed Makefile makes each example" "$work/bad"

# ---- tools ----

cat "$srcdir"/tools/Makefile.include "$srcdir"/tools/*/Makefile.include \
    | sed -n 's/^[a-z]*_*bin_[A-Z]* *+*= *//p' | tr ' ' '\n' | sed 's|.*/||' >"$work/tools"
enough 3 "$work/tools"
while read -r tool; do
    [ -f "$srcdir/docs/$tool.1" ] || echo "$tool has no page"
    grep -q "$tool" "$guide" || echo "$tool is not in the guide"
done <"$work/tools" >"$work/bad"
check "each installed tool has a manual page and is in the guide" "$work/bad"

# options < text: the long options that it names.
options() { grep -o -e '--[a-z][a-z-]*' | sort -u; }

# compare_options TOOL COMMAND...: of all its helps with those of its page.
compare_options() {
    tool=$1
    shift
    program=$(find "$builddir/tools" "$srcdir/tools" -name "$tool" ! -path '*/.libs/*' | head -n 1)
    {
        "$program" --help
        for command in "$@"; do "$program" "$command" --help; done
    } 2>&1 | options >"$work/help"
    plain "$srcdir/docs/$tool.1" | options >"$work/page"
    comm -3 "$work/help" "$work/page" | tr -d '\t' | grep -v -e '--help' -e '--version'
}
compare_options loco-agent >"$work/bad"
check "the options of loco-agent are those of its page" "$work/bad"
compare_options loco-info >"$work/bad"
check "the options of loco-info are those of its page" "$work/bad"
compare_options loco-log >"$work/bad"
check "the options of loco-log are those of its page" "$work/bad"
compare_options loco-perf >"$work/bad"
check "the options of loco-perf are those of its page" "$work/bad"
compare_options loco-run >"$work/bad"
check "the options of loco-run are those of its page" "$work/bad"
compare_options loco-sim list explore replay litmus scale >"$work/bad"
check "the options of loco-sim are those of its page" "$work/bad"
compare_options loco-trace-merge >"$work/bad"
check "the options of loco-trace-merge are those of its page" "$work/bad"

# ---- section 3 ----

grep '^loco_' "$srcdir/libloco.sym" >"$work/functions"
[ ! -e "$builddir/osc_loco/.libs/libloco_mpi.so" ] \
    || sed -n 's/^[a-z].*[ *]\(loco_[a-z_]*\)(.*/\1/p' "$srcdir/include/loco/mpi.h" >>"$work/functions"
enough 100 "$work/functions"
while read -r function; do
    page=$man3/$function.3
    [ ! -f "$page" ] || page=$man3/$(sed -n 's|^\.so man3/||p' "$page")
    [ "$page" != "$man3/" ] || page=$man3/$function.3
    grep -q "[ *]$function(" "$page" 2>/dev/null || echo "$function"
done <"$work/functions" >"$work/bad"
check "each public function is found in section 3" "$work/bad"

# The pages come from comments: one that is missing is an error.
mkdir "$work/man3"
sed '/^\/\*\* Wait until all processes/,/\*\/$/d' "$srcdir/include/loco/barrier.h" >"$work/barrier.h"
"$awk" -v dir="$work/man3" -v version=0 -f "$srcdir/docs/man3.awk" "$work/barrier.h" \
    2>"$work/says" && echo "an undocumented function was accepted" >"$work/bad"
grep -q loco_barrier_wait "$work/says" || cat "$work/says" >>"$work/bad"
check "a public function without a comment is an error" "$work/bad"

{
    cat "$guide" "$srcdir/README.md"
    plain "$srcdir"/docs/*.[17]
    cat "$srcdir"/include/loco/*.h
} | grep -oE 'loco(_[a-z_]+)?\(3\)' | sort -u | sed 's/(3)//' | while read -r page; do
    [ -f "$man3/$page.3" ] || [ "$page" = loco_mpi ] || echo "$page(3)"
done >"$work/bad"
check "pages that are referred to are there" "$work/bad"

grep -lE '\\e?(ref|see)( |$)' "$man3"/*.3 >"$work/bad"
check "no mark of a comment is left in the pages" "$work/bad"

# ---- do the pages read well? ----

# own_pages: all that are not a mere link.
own_pages() { ls "$srcdir"/docs/*.[17]; grep -L '^\.so ' "$man3"/*.3; }

if man --version >/dev/null 2>&1 && command -v lexgrog >/dev/null; then
    own_pages | while read -r page; do
        man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null | sed "s|^|${page##*/}: |"
        lexgrog "$page" >/dev/null 2>&1 || echo "${page##*/}: no name is found"
    done >"$work/bad"
    check "man has no warning of any page, and finds its names" "$work/bad"
else
    skip "man has no warning of any page, and finds its names" "no man with lexgrog (man-db)"
fi
if command -v mandoc >/dev/null; then
    own_pages | xargs mandoc -Tlint -W warning | grep -v 'missing date' >"$work/bad"
    check "mandoc has no warning of any page" "$work/bad"
else
    skip "mandoc has no warning of any page" "no mandoc"
fi

# ---- the guide's links and programs ----

sed -n 's/^##* \(.*\)/\1/p' "$guide" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9\n-' >"$work/anchors"
grep -o '](#[a-z0-9-]*)' "$guide" | sed 's/](#\(.*\))/\1/' | sort -u | while read -r anchor; do
    grep -qx -e "$anchor" "$work/anchors" || echo "#$anchor"
done >"$work/bad"
check "links within the guide lead somewhere" "$work/bad"

# Nothing else of the source tree is beside it where it is installed.
grep -oE '\]\((\.\./[^)]*|[A-Za-z0-9_/-]+\.[a-z0-9]+|[a-z0-9_-]+/[^)]*)\)' "$guide" >"$work/bad"
check "the guide links to nothing that is not installed beside it" "$work/bad"
grep -n -E '(bench|findings)/[a-z]|tests/[a-z]' "$guide" | grep -v 'source tree' >"$work/bad"
check "the guide says of files that are not installed that they are in the source tree" "$work/bad"

mkdir "$work/run"
guide_programs "$guide" "$work/run"

# As after an installation: pkg-config and the linker find the build tree. All steps run in with-loco.
prepare_build_tree() {
    mkdir "$work/bin"
    printf '#!/bin/sh\nexec "$@"\n' >"$work/bin/loco-run"
    printf '#!/bin/sh\nexec "%s/tools/loco-agent" "$@"\n' "$builddir" >"$work/bin/loco-agent"
    chmod +x "$work/bin/loco-run" "$work/bin/loco-agent"
    export XDG_RUNTIME_DIR="$work"      # for sockets of pools
    mkdir -p "$work/include/loco"
    ln -s "$srcdir"/include/loco/* "$srcdir/fortran/loco.f90" "$work/include/loco"
    export PYTHONPATH="$srcdir/python${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
    sed -e "s|^libdir=.*|libdir=$builddir/.libs|" \
        -e "s|^includedir=.*|includedir=$work/include|" "$builddir/loco.pc" >"$work/loco.pc"
    sed -e "s|^libdir=.*|libdir=$builddir/osc_loco/.libs|" \
        -e "s|^includedir=.*|includedir=$work/include|" "$builddir/loco-mpi.pc" >"$work/loco-mpi.pc"
    export PKG_CONFIG_PATH="$work" LIBRARY_PATH="$builddir/osc_loco/.libs"
    export PATH="$work/bin:$builddir/tools:$PATH"   # of tools that are scripts
}

run_step() {
    step=${1%.sh}
    if [ -f "$step.needs" ] && ! "$builddir/tools/with-loco" sh "$step.needs" >/dev/null 2>&1; then
        skip "$(tail -n 1 "$step.sh")" "what it needs is not here: $(cat "$step.needs")"
        return
    fi
    timeout -k 5 "${RUN_LIMIT:-120}" "$builddir/tools/with-loco" sh -e "$step.sh" \
        >"$step.out" 2>&1 </dev/null
    status=$?
    : >"$work/bad"
    [ $status -eq 0 ] || { echo "status $status"; tail -n 5 "$step.out"; } >"$work/bad"
    [ ! -f "$step.expected" ] || missing "$step.out" <"$step.expected" >>"$work/bad"
    check "$(tail -n 1 "$step.sh") prints what the guide says" "$work/bad"
}

ls "$work"/run/step*.sh >"$work/steps"
enough 3 "$work/steps"
if [ -e "$builddir/osc_loco/.libs/mca_osc_loco.so" ]; then
    prepare_build_tree
    cd "$work/run" || exit 1
    for step in step*.sh; do run_step "$step"; done
else
    skip "the guide's programs" "built without Open MPI"
fi
echo "1..$n"
exit $failed
