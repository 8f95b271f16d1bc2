# SPDX-License-Identifier: BSD-3-Clause
# Fetching the source packages of others; sourced by the scripts of this folder. The machine's apt
# configuration stays as it is: the entry for sources, derived from the machine's own mirror, and
# the lists read from it are in a private folder.

# debian_entries: "URI SUITE COMPONENTS... [signed-by=...]" of each of the machine's own entries for
# Debian, from both styles of apt's files.
debian_entries() {
    local files
    files=$(find /etc/apt/sources.list /etc/apt/sources.list.d -name '*.sources' 2>/dev/null || true)
    # shellcheck disable=SC2086
    awk '
        function flush(   i, n, suite) {
            n = split(field["suites"], suite, " ")
            for (i = 1; i <= n; i++)
                if (field["types"] ~ /deb/ && field["enabled"] !~ /no/)
                    print field["uris"], suite[i], field["components"],
                          field["signed-by"] ~ /^\// ? "[signed-by=" field["signed-by"] "]" : ""
            delete field
        }
        FNR == 1 { flush() }
        /^#/ { next }
        /^[ \t]*$/ { flush(); next }
        /^[A-Za-z-]+:/ {
            key = tolower(substr($0, 1, index($0, ":") - 1))
            value = substr($0, index($0, ":") + 1)
            gsub(/^[ \t]+|[ \t]+$/, "", value)
            field[key] = value
        }
        END { flush() }' $files /dev/null
    files=$(find /etc/apt/sources.list /etc/apt/sources.list.d -name '*.list' 2>/dev/null || true)
    # shellcheck disable=SC2086
    sed -n -e 's/^deb  *\(\[[^]]*\]\)  *\(.*\)/\2 \1/p' -e 's/^deb  *\([^[].*\)/\1/p' $files /dev/null
}

# fetch_configure FOLDER: makes FOLDER/apt.conf, with entries for the sources of this Debian alone.
fetch_configure() {
    local folder=$1
    mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
    debian_entries | sed -n \
        -e 's/^\([^ ]*\/debian\/*\) \([^[]*\)\(\[.*\]\)$/deb-src \3 \1 \2/p' \
        -e 's/^\([^ ]*\/debian\/*\) \([^[]*\)$/deb-src \1 \2/p' >"$folder/sources.list"
    if [ ! -s "$folder/sources.list" ]; then
        echo "no Debian mirror in /etc/apt to fetch sources from" >&2
        return 1
    fi
    cat >"$folder/apt.conf" <<END
Dir::Etc::sourcelist "$folder/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$folder/lists";
Dir::Cache "$folder/cache";
APT::Sandbox::User "";
Acquire::Retries "3";
Acquire::Languages "none";
END
}

# fetch_source PACKAGE FOLDER: unpacks PACKAGE's source, patched as Debian patches it, as
# FOLDER/PACKAGE, unless it is there already; or links to LOCO_SOURCES/PACKAGE, for a machine without
# a mirror of sources. What apt says is in FOLDER/PACKAGE.log.
fetch_source() {
    local package=$1 folder log
    mkdir -p "$2" || return 1
    folder=$(cd "$2" && pwd)
    log=$folder/$package.log
    [ ! -d "$folder/$package" ] || return 0
    if [ -n "${LOCO_SOURCES-}" ] && [ -d "$LOCO_SOURCES/$package" ]; then
        ln -s "$(cd "$LOCO_SOURCES/$package" && pwd)" "$folder/$package"
        return
    fi
    command -v dpkg-source >/dev/null \
        || { echo "no dpkg-source: apt-get install dpkg-dev" >&2; return 1; }
    fetch_configure "$folder/apt" || return 1
    rm -rf "$folder/unpack" && mkdir "$folder/unpack"
    if fetch_unpack "$package" "$folder" >"$log" 2>&1; then
        mv "$folder"/unpack/*/ "$folder/$package" && rm -rf "$folder/unpack"
        return
    fi
    rm -rf "$folder/unpack"
    echo "the source of $package cannot be fetched; the end of $log:" >&2
    tail -n 5 "$log" >&2
    return 1
}

fetch_unpack() (
    export APT_CONFIG=$2/apt/apt.conf
    timeout 300 apt-get update && cd "$2/unpack" && timeout 900 apt-get source "$1"
)
