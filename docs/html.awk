# SPDX-License-Identifier: BSD-3-Clause
# Makes a page of what cmark-gfm prints: a head and a style, headings that can be linked to as on
# the web (by their text).
#   cmark-gfm --extension table guide.md | awk -v title=... -f html.awk

function slug(line) {
    gsub(/<[^>]*>/, "", line)
    gsub(/&[a-z]+;/, "", line)
    line = tolower(line)
    gsub(/[^a-z0-9 _-]/, "", line)
    gsub(/ /, "-", line)
    if (seen[line]++)
        line = line "-" (seen[line] - 1)
    return line
}

BEGIN {
    print "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">"
    print "<meta name=\"viewport\" content=\"width=device-width\">"
    print "<title>" title "</title>\n<style>"
    print "body { max-width: 56em; margin: 2em auto; padding: 0 1em; font-family: sans-serif; line-height: 1.45; }"
    print "pre { background: #f4f4f4; padding: .7em; overflow-x: auto; }"
    print "code { background: #f4f4f4; }"
    print "table { border-collapse: collapse; display: block; overflow-x: auto; }"
    print "td, th { border: 1px solid #ccc; padding: .25em .5em; text-align: left; vertical-align: top; }"
    print "img { max-width: 100%; }"
    print "</style>\n</head>\n<body>"
}

/^<h[1-6]>/ {
    level = substr($0, 3, 1)
    sub(/^<h[1-6]>/, "<h" level " id=\"" slug($0) "\">")
}

{ print }

END { print "</body>\n</html>" }
