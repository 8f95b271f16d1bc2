# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# A tree of a Debian release, made by debootstrap and entered by chroot; sourced by bash.
#
# Each command that runs in the tree has a mount namespace and a process namespace of its own. What
# is mounted there and what runs there ends with the command, whatever ends the command: nothing can
# stay mounted below the tree, so it can be removed at any time.

tree_root=              # where the tree is
tree_stays=no           # yes: it is left where it is in the end
tree_pid=               # the command that runs in it now
tree_tools="debootstrap unshare mount chroot tar"

# tree_check: is there all that a tree needs? Else one line says what is missing; status 1.
tree_check() {
    local tool
    [ "$(id -u)" -eq 0 ] || { echo "it needs root, for debootstrap and chroot"; return 1; }
    for tool in $tree_tools; do
        command -v "$tool" >/dev/null \
            || { echo "it needs $tool, which is not installed"; return 1; }
    done
    [ -n "$(tree_mirror)" ] || { echo "it needs a Debian mirror: none is in /etc/apt"; return 1; }
    unshare --mount --pid --fork --kill-child true 2>/dev/null \
        || { echo "it needs namespaces, which unshare may not make here"; return 1; }
}

# The mirror that this machine uses for Debian itself.
tree_mirror() {
    local files
    files=$(find /etc/apt/sources.list /etc/apt/sources.list.d -name '*.list' -o -name '*.sources' \
            2>/dev/null || true)
    # shellcheck disable=SC2086
    cat $files </dev/null \
        | sed -n -e 's/^URIs: *\([^ ]*\).*/\1/p' -e 's/^deb  *\(\[[^]]*\]  *\)\{0,1\}\([^ ]*\).*/\2/p' \
        | grep '/debian/*$' | head -n 1
}

# tree_place [FOLDER]: where the tree is, or is made. Without FOLDER a new one, removed in the end.
tree_place() {
    trap tree_end EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    if [ -z "${1-}" ]; then
        tree_root=$(mktemp -d "${TMPDIR:-/var/tmp}/debian-tree.XXXXXX")
    else
        mkdir -p "$1"
        tree_root=$(realpath "$1")
        tree_stays=yes
    fi
}

# tree_make SUITE: a minimal one, unless it is there already.
tree_make() {
    local log="$tree_root.log" file
    if [ ! -e "$tree_root/etc/debian-tree" ]; then
        if [ -d "$tree_root/debootstrap" ]; then        # of one that was not finished
            rm -rf --one-file-system "$tree_root"
        elif [ -n "$(ls -A "$tree_root" 2>/dev/null)" ]; then
            echo "$tree_root holds something else; name a new folder"
            return 1
        fi
        mkdir -p "$tree_root"
        tree_alone debootstrap --variant=minbase "$1" "$tree_root" "$(tree_mirror)" >"$log" 2>&1 \
            || { tail -n 20 "$log"; rm -f "$log"; return 1; }
        rm -f "$log"
        # It can be made anew; waiting for the disk after each package takes half of the time.
        echo force-unsafe-io >"$tree_root/etc/dpkg/dpkg.cfg.d/unsafe-io"
        echo "$1" >"$tree_root/etc/debian-tree"
    fi
    [ "$(cat "$tree_root/etc/debian-tree")" = "$1" ] \
        || { echo "$tree_root is not a tree of $1; name another folder"; return 1; }
    # How this machine reaches its mirror.
    cp /etc/resolv.conf "$tree_root/etc/resolv.conf" 2>/dev/null || true
    for file in /etc/apt/apt.conf.d/*; do
        # Those of this machine's packages are asked about when the tree gets the same package.
        dpkg-query -S "$file" >/dev/null 2>&1 || cp "$file" "$tree_root/etc/apt/apt.conf.d/" 2>/dev/null || true
    done
}

# tree_alone COMMAND...: with mounts and processes that end with it; a signal to this shell ends it.
tree_alone() {
    local rc=0
    unshare --mount --pid --fork --kill-child /bin/sh -c '"$@"; exit $?' sh "$@" <&0 &
    tree_pid=$!
    wait "$tree_pid" || rc=$?
    tree_pid=
    return $rc
}

# What tree_run does in its namespaces: folder, user, and the environment and command. The tree
# becomes a mount point, so that namespaces can be made in there, too. (Process 1 stays this shell:
# a change of user would undo what ends it with unshare.)
tree_enter='
set -e
root=$1 user=$2
shift 2
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/shm dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
mknod -m 666 dev/null c 1 3
mknod -m 666 dev/zero c 1 5
mknod -m 666 dev/random c 1 8
mknod -m 666 dev/urandom c 1 9
mknod -m 666 dev/tty c 5 0
ln -s /proc/self/fd dev/fd
ln -s pts/ptmx dev/ptmx
set +e
env -i "$@" chroot --userspec="$user" "$root" /bin/sh -c "$tree_command"
exit $?
'

# tree_run USER COMMAND: in the tree, with nothing of this session's environment but proxies.
tree_run() {
    local user=$1 name
    local env=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C)
    shift
    for name in http_proxy https_proxy no_proxy TERM; do
        [ -z "${!name-}" ] || env+=("$name=${!name}")
    done
    tree_alone env tree_command="$*" \
        /bin/sh -c "$tree_enter" sh "$tree_root" "$user" "${env[@]}"
}

# tree_copy FOLDER: this checkout, as it is now, into that folder of the tree. Files that an earlier
# copy had and that are gone from the checkout go there, too; what was built there stays.
tree_copy() {
    local to="$tree_root/$1" list="$tree_root/$1/.copied"
    mkdir -p "$to"
    tree_files | sort >"$list.new"
    if [ -f "$list" ]; then
        comm -23 "$list" "$list.new" | while IFS= read -r name; do rm -f "$to/$name"; done
    fi
    tar -cf - --no-recursion -T "$list.new" | tar -xf - --no-same-owner -C "$to"
    mv "$list.new" "$list"
}

# The files of the checkout, without what is built.
tree_files() {
    if [ -e .git ] && command -v git >/dev/null; then
        git ls-files -co --exclude-standard | while IFS= read -r name; do
            [ ! -e "$name" ] || printf '%s\n' "$name"
        done
    else
        find . \( -name 'build*' -o -name autom4te.cache -o -name configure -o -name aclocal.m4 \) \
            -prune -o ! -type d -print
    fi
}

tree_end() {
    local tries=0
    trap - EXIT
    trap '' INT TERM HUP
    if [ -n "$tree_pid" ]; then
        kill -KILL "$tree_pid" 2>/dev/null || true
        wait "$tree_pid" 2>/dev/null || true
    fi
    if [ -n "$tree_root" ] && [ $tree_stays = no ]; then
        # What was killed just now may still be writing.
        until rm -rf --one-file-system "$tree_root" "$tree_root.log" 2>/dev/null \
              || [ $((tries += 1)) -gt 20 ]; do
            sleep 0.5
        done
        [ ! -e "$tree_root" ] || echo "$tree_root could not be removed" >&2
    fi
}
