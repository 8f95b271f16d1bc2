# SPDX-License-Identifier: BSD-3-Clause
# One of MPICH's lists of tests, as its own runtests reads it with --enable-strictmpi (so that
# xfail, which is about MPICH, has no meaning), into lines with these fields:
#   KEY|FOLDER|PROGRAM|RANKS|LIMIT|RESULT|MPIRUN ARGUMENTS|ENVIRONMENT|ARGUMENTS|WHY NOT RUN
# Variables: folder, limit (of lines that say none).
BEGIN { OFS = "|" }

function add(list, value) { return list == "" ? value : value == "" ? list : list " " value }

{
    sub(/#.*/, "")
    if (NF == 0 || $1 ~ /^!/)
        next
    ranks = NF >= 2 ? $2 : 2
    seconds = limit
    result = mpirun = environment = arguments = why = ""
    for (i = 3; i <= NF; i++) {
        key = $i
        sub(/=.*/, "", key)
        value = substr($i, length(key) + 2)
        if (key == "arg")
            arguments = add(arguments, value)
        else if (key == "env")
            environment = add(environment, value)
        else if (key == "mpiexecarg")
            mpirun = add(mpirun, value)
        else if (key == "timeLimit")
            seconds = value
        else if (key == "resultTest")
            result = value
        else if (key == "strict" && tolower(value) == "false")
            why = "it goes beyond the standard"
        else if (key == "mpix" && tolower(value) == "true")
            why = "it tests extensions of MPICH"
        else if (key == "mpiversion" && value + 0 > 3.1)
            why = "it is for MPI " value
        else if (key !~ /^(strict|mpix|mpiversion|xfail|lock|mem|init)$/)
            why = "what is " key "=?"
    }
    line = folder "/" $1 " " ranks
    print add(line, arguments), folder, $1, ranks, seconds, result, mpirun, environment, \
        arguments, why
}
