#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Recipes of packages, which their own programs are not here to read, are valid Python and fit the sources; and
# findings/README.md has a line for each script beside it.
set -u
: "${srcdir:=.}" "${builddir:=.}"
work=$(mktemp -d "${TMPDIR:-/tmp}/loco-recipes.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
n=0
failed=0

# check TITLE FILE: passes if FILE, a list of what is wrong, is empty.
check() {
    n=$((n + 1))
    if [ -s "$2" ]; then
        echo "not ok $n - $1: $(tr '\n' ' ' <"$2")"
        failed=1
    else
        echo "ok $n - $1"
    fi
}

skip() { n=$((n + 1)); echo "ok $n - $1 # SKIP $2"; }

release=$(sed -n 's/^release=//p' "$srcdir/VERSION")
spack=$srcdir/packaging/spack/osc-loco/package.py
easybuild=$(ls "$srcdir"/packaging/easybuild/*.eb)

# ---- findings ----

ls "$srcdir/findings" | grep '[.]sh$' | sort >"$work/scripts"
sed -n 's/^| `\([a-z0-9_]*[.]sh\)` | .* | .* |$/\1/p' "$srcdir/findings/README.md" | sort >"$work/rows"
comm -3 "$work/scripts" "$work/rows" | tr -d '\t' >"$work/bad"
check "findings/README.md has one line for each finding" "$work/bad"
grep -o 'findings/[a-z0-9_]*[.]sh' "$srcdir/Makefile.am" | sed 's|.*/||' | sort >"$work/packed"
comm -3 "$work/scripts" "$work/packed" | tr -d '\t' >"$work/bad"
check "Makefile.am packs all of them" "$work/bad"

# ---- recipes ----

PYTHON=${PYTHON:-python3}
if ! command -v "$PYTHON" >/dev/null; then
    skip "recipes" "there is no $PYTHON"
    echo "1..$n"
    exit $failed
fi

# A recipe of EasyBuild is a list of assignments, to whose names a few constants are known.
cat >"$work/easyconfig.py" <<'END'
import os
import sys
recipe = {'SOURCE_TAR_GZ': '%(name)s-%(version)s.tar.gz', 'SHLIB_EXT': 'so'}
with open(sys.argv[1]) as text:
    exec(compile(text.read(), sys.argv[1], 'exec'), recipe)
for name in ('easyblock', 'name', 'version', 'homepage', 'description', 'toolchain', 'sources', 'moduleclass',
             'sanity_check_paths', 'configopts'):
    if not recipe.get(name):
        print('no', name)
chain = recipe['toolchain']
wanted = '%s-%s-%s-%s.eb' % (recipe['name'], recipe['version'], chain['name'], chain['version'])
if os.path.basename(sys.argv[1]) != wanted:
    print('the file is to be called', wanted)
if set(recipe['sanity_check_paths']) != {'files', 'dirs'}:
    print('sanity_check_paths has files and dirs')
if recipe['version'] != sys.argv[2]:
    print('version', recipe['version'])
for kind in ('builddependencies', 'dependencies'):
    for one in recipe[kind]:
        if not 2 <= len(one) <= 4 or not all(isinstance(part, str) for part in one):
            print(kind, one)
for word in recipe['configopts'].split():
    if word.split('=')[0] not in sys.argv[3].split():
        print('configure has no', word)
END
options=$("$srcdir/configure" --help | grep -o -e '--with[a-z-]*')
"$PYTHON" -B "$work/easyconfig.py" "$easybuild" "$release" "--without-tests $options" >"$work/bad" 2>&1
check "the recipe of EasyBuild is complete, and for this release" "$work/bad"

# The files that it looks for are those of an installation.
"$PYTHON" - "$easybuild" <<'END' >"$work/files"
import sys
recipe = {'SOURCE_TAR_GZ': '', 'SHLIB_EXT': 'so'}
exec(open(sys.argv[1]).read(), recipe)
print('\n'.join(recipe['sanity_check_paths']['files']))
END
while read -r file; do
    case $file in
    include/loco/*) [ -e "$srcdir/$file" ] ;;
    bin/* | lib/*) grep -q "$(basename "$file" .so)" "$builddir/Makefile" ;;
    *) false ;;
    esac || echo "$file"
done <"$work/files" >"$work/bad"
check "it looks for files that are installed" "$work/bad"

"$PYTHON" -B -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$spack" >"$work/bad" 2>&1
grep -q "version(\"$release\")" "$spack" || echo "no version $release" >>"$work/bad"
grep -q "osc_loco-$release[.]tar[.]gz" "$spack" || echo "no tarball of $release" >>"$work/bad"
check "the recipe of Spack is valid Python, and for this release" "$work/bad"

# ---- the module file ----

if command -v tclsh >/dev/null; then
    cat >"$work/module.tcl" <<'END'
foreach command {module-whatis conflict prepend-path setenv} {
    proc $command args { puts "[lindex [info level 0] 0] $args" }
}
source [lindex $argv 0]
ModulesHelp
END
    tclsh "$work/module.tcl" "$builddir/packaging/modulefile" >"$work/module" 2>"$work/bad"
    sed -i '/loco/d' "$work/bad"        # the help
    for name in PATH MANPATH PKG_CONFIG_PATH LOCO_ROOT; do
        grep -q "$name" "$work/module" || echo "no $name" >>"$work/bad"
    done
    grep -e '@[a-z]*@' -e '[$]{' "$work/module" >>"$work/bad"
    check "the module file is valid Tcl, and sets what it should" "$work/bad"
else
    skip "the module file is valid Tcl, and sets what it should" "there is no tclsh"
fi
echo "1..$n"
exit $failed
