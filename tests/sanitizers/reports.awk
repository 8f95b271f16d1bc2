# SPDX-License-Identifier: BSD-3-Clause
# Reads the sanitizers' reports of MPI programs; prints a line for each that is ours.
#
# Open MPI and PMIx are not instrumented: the thread sanitizer sees their calls into the C library
# and none of their atomics, and reports dozens of races that are none; and they leave memory
# behind at exit. So leaks count where our own code allocated, races where it made both accesses
# (what Open MPI received for us it handed over by a lock that is not seen): where the first frame
# that is neither the sanitizer's nor the C library's is in one of our folders. (A list of
# suppressions would not do: it matches any frame, and each call of ours has libmpi further down.)
# Errors of other kinds always count.

function ours(frame)
{
    return frame ~ /[ \/](runtime|channels|osc_loco|mpi_examples|bench|tests)\/[^ ]*\.[ch]:/ \
        && frame !~ /libsanitizer/
}

function library(frame)
{
    return frame ~ /libsanitizer|sanitizer_common|compiler-rt|libio\/|stdlib\/|string\/|nptl\/|libc\.so/
}

function end_of_report()
{
    if (title != "" && guilty != "" && !others)
        print title ": " guilty
    title = guilty = ""
    looking = others = 0
}

# A new report. Its own stack follows at once, or after a line that says which access it is.
function begin(line)
{
    end_of_report()
    title = line
    looking = 1
}

/ERROR: AddressSanitizer|runtime error:|(ERROR|FATAL): ThreadSanitizer|CHECK failed/ { print }
/^(Direct|Indirect) leak of/ || /WARNING: ThreadSanitizer/ { begin($0); next }
/^==================$/ || /ERROR: LeakSanitizer/ { end_of_report(); next }

# Stacks of a thread report: accesses count, where memory, mutexes and threads come from does not.
title ~ /ThreadSanitizer/ && /^  [A-Z]/ {
    looking = /^  (Read|Write|Atomic|Previous|Mutex M[0-9]* acquired)/
    next
}

title != "" && looking && /^ *#[0-9]+ / {
    if (library($0))
        next
    looking = 0
    if (!ours($0))
        others = 1
    else if (guilty == "") {
        guilty = $0
        sub(/^ */, "", guilty)
    }
}

END { end_of_report() }
