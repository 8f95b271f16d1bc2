# SPDX-License-Identifier: BSD-3-Clause
# Makes the manual pages of section 3 from the comments of the public headers:
#     awk -v dir=DIR -v version=VERSION -f man3.awk include/loco/*.h
# writes DIR/loco_GROUP.3 for each \defgroup GROUP, and for each function a page that leads there.
#
# What it reads: between "\defgroup" and "@}", a comment that begins with /** belongs to the
# declarations that follow it up to the next such comment or empty line. A function that no comment
# belongs to ends the run with an error. Text is paragraphs and tables as in Markdown, with `code`;
# "\ref GROUP" in it is the page of that group. A line "\see PAGE(3), ..." of a group lists what its
# SEE ALSO begins with.

function fail(what) {
    print FILENAME ":" FNR ": " what >"/dev/stderr"
    bad = 1
    exit 1
}

# ---- text to roff ----

# Names, code and pages in bold.
function fonts(s,    done, word) {
    while (match(s, /`[^`]*`|(loco|LOCO|MPI|mpi|lloco)_[A-Za-z0-9_]*[A-Za-z0-9*]|[a-z_]+\([1-8]\)|<[a-z\/_.]+\.h>/)) {
        word = substr(s, RSTART, RLENGTH)
        done = done substr(s, 1, RSTART - 1)
        s = substr(s, RSTART + RLENGTH)
        if (word ~ /^`/) {
            word = substr(word, 2, length(word) - 2)
            gsub(/-/, "\\-", word)
            word = "\\fB" word "\\fP"
        } else if (match(word, /\([1-8]\)$/))
            word = "\\fB" substr(word, 1, RSTART - 1) "\\fP" substr(word, RSTART)
        else
            word = "\\fB" word "\\fP"
        done = done word
    }
    return done s
}

function roff(s) {
    gsub(/\\/, "\\e", s)
    s = fonts(s)
    gsub(/ -l/, " \\-l", s)
    return s ~ /^[.']/ ? "\\&" s : s
}

function code(s) {
    gsub(/\\/, "\\e", s)
    gsub(/-/, "\\-", s)
    sub(/\/\*\*<? /, "/* ", s)
    return s ~ /^[.']/ ? "\\&" s : s
}

function cell_text(s) {
    sub(/^ +/, "", s)
    sub(/ +$/, "", s)
    return s
}

# A row of a table: a text block is for what can be broken, thus not for one word. The first column is
# not broken, either, unless it would leave too little for the others.
function row(line,    n, part, i, cell, done) {
    n = split(line, part, "|") - 1
    for (i = 2; i <= n; i++) {
        cell = roff(cell_text(part[i]))
        done = done (i > 2 ? "@" : "") (cell !~ / / || (i == 2 && length(cell) < 36) ? cell : "T{\n" cell "\nT}")
    }
    return done
}

function table(first, last,    n, part, i, heads, body) {
    n = split(text_line[first], part, "|") - 2
    for (i = 1; i <= n; i++) {
        heads = heads (i > 1 ? " " : "") "lb" (i > 1 ? "x" : "")
        body = body (i > 1 ? " " : "") "l" (i > 1 ? "x" : "")
    }
    out(".TS")
    out("allbox tab(@);")
    out(heads)
    out(body ".")
    for (i = first; i <= last; i++)
        if (text_line[i] !~ /^\| *-/)
            out(row(text_line[i]))
    out(".TE")
}

# The n lines of text_line.
function text(n, start,    i, first, para) {
    para = start
    for (i = 1; i <= n; i++) {
        if (text_line[i] == "") {
            para = ".PP"
            continue
        }
        if (text_line[i] ~ /^\|/) {
            for (first = i; i < n && text_line[i + 1] ~ /^\|/; i++)
                ;
            table(first, i)
            para = ".PP"
            continue
        }
        if (text_line[i] ~ /^(Order|Errors|Source|Concurrent|Own part|Cost|Names)[a-z _]*: /)
            para = ".PP"
        if (para != "" && !(i == 1 && start == ""))
            out(para)
        para = ""
        out(roff(text_line[i]))
    }
}

# ---- pages ----

function out(line) { print line >page_file }

function page_of(group) { return group == "loco" ? "loco" : "loco_" group }

function begin_page(group, title) {
    page = page_of(group)
    see_also = ""
    page_title = tolower(substr(title, 1, 1)) substr(title, 2)
    entries = functions = 0
    entry_doc = entry_code = ""
    in_page = 1
    header = FILENAME
    sub(/.*include\//, "", header)
}

# "\ref tx", also where a line ends between, is the page loco_tx(3).
function with_pages(s,    done, group) {
    while (match(s, /\\ref[ \n]+[a-z_]+/)) {
        group = substr(s, RSTART + 4, RLENGTH - 4)
        gsub(/[ \n]/, "", group)
        done = done substr(s, 1, RSTART - 1) page_of(group) "(3)"
        s = substr(s, RSTART + RLENGTH)
    }
    return done s
}

function show(s, start,    n) {
    s = with_pages(s)
    n = split(s, text_line, "\n")
    text(n, start)
}

function code_block(s,    n, line, i) {
    out(".nf")
    n = split(s, line, "\n")
    for (i = 1; i <= n; i++)
        out("\\fB" code(line[i]) "\\fP")
    out(".fi")
}

function end_entry() {
    if (entry_code != "") {
        entries++
        doc[entries] = entry_doc
        what[entries] = entry_code
        callable[entries] = entry_calls
        if (entry_calls && entry_doc == "")
            fail("no comment belongs to " entry_name)
    } else if (entry_doc != "") {
        entries++
        doc[entries] = entry_doc
        what[entries] = ""
        callable[entries] = entry_follows_calls
    }
    entry_follows_calls = entry_calls
    entry_doc = entry_code = ""
    entry_calls = 0
}

function section(title, calls,    i, any) {
    for (i = 1; i <= entries; i++) {
        if (callable[i] != calls)
            continue
        out(any ? ".PP" : ".SH " title)
        any = 1
        if (what[i] != "")
            code_block(what[i])
        if (doc[i] != "") {
            out(".RS 4")
            show(doc[i], "")
            out(".RE")
        }
    }
}

function end_page(    i, names) {
    page_file = dir "/" page ".3"
    for (i = 1; i <= functions; i++)
        if (name[i] != page)
            names = names ", " name[i]
    out("'\\\" t")
    out(".\\\" Made from include/" header " by docs/man3.awk; SPDX-License-Identifier: BSD-3-Clause")
    out(".TH " toupper(page) " 3 \"\" \"osc_loco " version "\" \"LOCO channels\"")
    out(".nh")
    out(".ad l")
    out(".SH NAME")
    out(page names " \\- " page_title)
    out(".SH SYNOPSIS")
    out(".nf")
    out("\\fB#include <" header ">\\fP")
    for (i = 1; i <= entries; i++)
        if (callable[i] && what[i] != "") {
            out("")
            code_block(what[i])
            out(".nf")
        }
    out(".fi")
    if (group_doc != "") {
        out(".SH DESCRIPTION")
        show(group_doc, "")
    }
    section("TYPES", 0)
    section("FUNCTIONS", 1)
    if (functions > 0 && page != "loco_status") {
        out(".SH RETURN VALUE")
        out("Functions that return a status: \\fBLOCO_OK\\fP (0), or a negative error. A call may")
        out("document a positive number as well. \\fBloco_status\\fP(3) lists all of them.")
    }
    write_see_also()
    close(page_file)
    for (i = 1; i <= functions; i++)
        link(name[i])
    in_page = 0
}

# Those that the line \see lists, and the two to begin with.
function write_see_also(    n, i, item) {
    n = split(see_also, item, /, */)
    out(".SH SEE ALSO")
    for (i = 1; i <= n; i++) {
        sub(/\(/, " (", item[i])
        gsub(/-/, "\\-", item[i])
        out(".BR " item[i] ",")
    }
    if (page != "loco")
        out(".BR loco (3),")
    out(".BR osc_loco (7)")
}

function link(from,    file) {
    if (from == page)
        return
    file = dir "/" from ".3"
    print ".so man3/" page ".3" >file
    close(file)
}

# ---- headers ----

# One line of a comment, without what makes it one.
function comment_line(line) {
    sub(/ *\*\/ *$/, "", line)
    sub(/^ *\/\*\* ?/, "", line)
    sub(/^ *\* ?/, "", line)
    return line
}

function add_doc(line) { entry_doc = entry_doc (entry_doc == "" ? "" : "\n") line }

function count_braces(line,    open) {
    sub(/\/\*.*$/, "", line)
    open = gsub(/[{]/, "", line)
    return open - gsub(/[}]/, "", line)
}

# The function that a line declares, or nothing.
function declared(line) {
    if (depth > 0 || line !~ /^[a-z]/ || line ~ /^(typedef|static)/)
        return ""
    if (!match(line, /[ *]loco_[a-z0-9_]*\(/))
        return ""
    return substr(line, RSTART + 1, RLENGTH - 2)
}

/^\/\*\* \\defgroup / {
    if (in_page)
        fail("a group in a group")
    group_title = $0
    sub(/^\/\*\* \\defgroup [a-z_]+ */, "", group_title)
    begin_page($3, group_title)
    reading = "group"
    group_doc = ""
    next
}
reading == "group" {
    if ($0 ~ /@[{]/)
        reading = ""
    else if (comment_line($0) ~ /^\\see /)
        see_also = substr(comment_line($0), 6)
    else if (group_doc != "" || comment_line($0) != "")
        group_doc = group_doc (group_doc == "" ? "" : "\n") comment_line($0)
    next
}
!in_page { next }
/^\/\*\* @[}]/ { end_entry(); end_page(); next }
reading == "comment" || (/^\/\*\*/ && depth == 0) {
    if (reading == "") {
        end_entry()
        reading = "comment"
    }
    add_doc(comment_line($0))
    if ($0 ~ /\*\/ *$/)
        reading = ""
    next
}
/^$/ && depth == 0 { end_entry(); next }
{
    entry_name = declared($0)
    if (entry_name != "") {
        name[++functions] = entry_name
        entry_calls = 1
    }
    entry_code = entry_code (entry_code == "" ? "" : "\n") $0
    depth += count_braces($0)
}
END {
    if (bad)
        exit 1
    if (in_page)
        fail("a group has no end")
}
