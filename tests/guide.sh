# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
# The user's guide as a script; sourced. In the guide ```c file=NAME is a file, of other languages too, ```sh run
# is run, ```sh run if COMMAND where the command succeeds, and each line of a ```text output that follows must be in
# what it printed.

# guide_programs GUIDE FOLDER: the files, step1.sh and so on, step1.needs with the command, and step1.expected.
guide_programs() {
    "${AWK:-awk}" -v dir="$2" '
    /^```/ && file != "" { close(file); file = ""; next }
    /^```(c|cpp|fortran|python) file=/ { file = dir "/" substr($0, index($0, "=") + 1); next }
    /^```sh run/ { file = dir "/step" ++steps ".sh" }
    /^```sh run if / { needs = dir "/step" steps ".needs"; print substr($0, 14) >needs; close(needs) }
    /^```sh run/ { next }
    /^```text output/ { file = dir "/step" steps ".expected"; next }
    file != "" { print >file }' "$1"
}

# guide_block GUIDE NAME: the lines of its one block ```sh NAME, or of ```text NAME.
guide_block() {
    "${AWK:-awk}" -v name="$2" '
    /^```/ && on { exit }
    on { print; lines++ }
    $0 == "```sh " name || $0 == "```text " name { on = 1 }
    END { exit lines == 0 }' "$1"
}
