# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Servers and folders of the stores that the scripts beside it compare with. After lib.sh.

# Its number is in a file, for it is started in a subshell, and the trap is not run there.
stop_server() {
    local server
    [ -s "$work/server" ] || return 0
    server=$(<"$work/server")
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    rm -f "$work/server" "$work/socket"
}

# A new server, with nothing in it, on a socket of our own; returns 1 where it does not start.
start_server() { # redis|memcached
    local as=() tries
    case $1 in
    redis)
        redis-server --port 0 --unixsocket "$work/socket" --save '' --appendonly no \
            --dir "$work" >"$work/server.log" 2>&1 &
        ;;
    memcached)
        # -M: an error rather than a key that is gone; -R: as many requests at a time as we send.
        [ "$(id -u)" != 0 ] || as=(-u root)
        memcached "${as[@]}" -s "$work/socket" -t 2 -m 16384 -M -R 1000 \
            >"$work/server.log" 2>&1 &
        ;;
    esac
    echo $! >"$work/server"
    for ((tries = 0; tries < 200; tries++)); do
        [ ! -S "$work/socket" ] || return 0
        kill -0 $! 2>/dev/null || break
        sleep 0.05
    done
    cat "$work/server.log" >"$work/err"
    stop_server
    return 1
}

# Files of stores are in memory, where there is room: a folder for them.
make_places() {
    places=$work
    [ ! -w /dev/shm ] || places=$(mktemp -d /dev/shm/loco-stores.XXXXXX)
    trap 'stop_server; rm -rf "$work" "$places"' EXIT
}

# What went wrong in the last run.
complaint() {
    local text
    text=$(grep -v '^[- ]*$' "$work/err" | head -n 1 | cut -c 1-100)
    echo "${text:-no message}"
}

declare -A package=([lmdb]=liblmdb-dev [wiredtiger]=libwiredtiger-dev [rocksdb]=librocksdb-dev
    [redis]=redis-server [memcached]=memcached)

# keep_rivals PROGRAM: of $rivals those that are there; the others are told. What the program was
# built with, its help says; servers are commands.
keep_rivals() {
    local rival kept= missing=() libraries=0
    "$1" --help >"$work/stores" 2>/dev/null </dev/null ||
        mpi 60 sm,rdma 1 "$1" --help >"$work/stores" 2>"$work/err" || die "$1 does not run"
    for rival in ${rivals//,/ }; do
        case $rival in
        redis) command -v redis-server >/dev/null || { missing+=("${package[$rival]}"); continue; } ;;
        memcached) command -v memcached >/dev/null || { missing+=("${package[$rival]}"); continue; } ;;
        lmdb|wiredtiger|rocksdb)
            grep -q "^  $rival " "$work/stores" ||
                { missing+=("${package[$rival]}"); libraries=1; continue; } ;;
        esac
        kept+=${kept:+,}$rival
    done
    rivals=$kept
    [ ${#missing[@]} -gt 0 ] || return 0
    echo "$name: NOT THERE, so not compared: ${missing[*]}" \
        "(apt-get install --no-install-recommends ${missing[*]})" >&2
    [ $libraries = 0 ] || echo "$name: what is a library has to be there for ./configure" >&2
}
