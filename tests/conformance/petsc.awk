# SPDX-License-Identifier: BSD-3-Clause
# PETSc's tests of its star forests on windows, as their sources say them: a line of
# "ranks|file with what should be printed|arguments" for each combination of what is in {{ }}.
# -v program=ex1

function begin_test() { suffix = ""; args = ""; nsize = "1"; output = "" }

# The test that ends here, once for each value of the first list in its ranks and arguments.
function expand(text, out,    at, end, list, n, value, i, rest, name) {
    at = index(text, "{{")
    if (at == 0) {
        n = index(text, "|")
        print substr(text, 1, n - 1) "|" out ".out|" substr(text, n + 1)
        return
    }
    rest = substr(text, at + 2)
    end = index(rest, "}")
    n = split(substr(rest, 1, end - 1), list, " ")
    rest = substr(rest, end + 1)
    name = sub(/^separate output/, "", rest) ? "_nsize-" : ""
    sub(/^ *}/, "", rest)
    for (i = 1; i <= n; i++)
        value[i] = list[i]
    for (i = 1; i <= n; i++)
        expand(substr(text, 1, at - 1) value[i] rest, out (name != "" ? name value[i] : ""))
}

function end_test() {
    if (args ~ /-sf_type window/)
        expand(nsize "|" args, output != "" ? output : program (suffix != "" ? "_" suffix : "_1"))
}

/^\/\*TEST/ { inside = 1; begin_test(); next }
/^TEST\*\// { end_test(); exit }
!inside { next }
/^ *test:/ { end_test(); begin_test() }
/^ *suffix:/ { suffix = $2 }
/^ *nsize:/ { sub(/^ *nsize: */, ""); nsize = $0 }
/^ *args:/ { sub(/^ *args: */, ""); args = $0 }
/^ *output_file:/ { output = $2; sub(/^output\//, "", output); sub(/\.out$/, "", output) }
