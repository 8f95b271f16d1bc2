# SPDX-License-Identifier: BSD-3-Clause
#
# get_kernel, for `guest`: sets $kernel to a folder with vmlinux, initramfs and lib/modules. All is
# made in a folder of its own and renamed when it is whole, so that neither an interrupt nor a second
# caller at the same time leaves or finds half of it.

# The uncompressed kernel inside of vmlinuz: to unpack it under emulation would take seconds.
unpack_kernel() { # VMLINUZ
    local from
    for from in $(LC_ALL=C grep -abo $'\xfd7zXZ' "$1" | cut -d: -f1); do
        tail -c +$((from + 1)) "$1" | xz -dc --single-stream >"$1.elf" 2>/dev/null
        if [ "$(head -c 4 "$1.elf" | tail -c 3)" = ELF ]; then
            mv "$1.elf" "$1"
            return
        fi
    done
    rm -f "$1.elf"
}

# What the guest needs until it can read its root.
make_initramfs() { # FOLDER VERSION
    local ram=$1/ram file name
    mkdir -p "$ram"/{bin,modules,proc,sys,dev,host,upper,root}
    cp "$(command -v busybox)" "$ram/bin/busybox"
    ln -s busybox "$ram/bin/sh"
    cp "$here/init" "$ram/init"
    chmod +x "$ram/init"
    for name in virtio_pci 9pnet_virtio 9p overlay virtio_console; do
        modprobe -d "$1" -S "$2" --show-depends --ignore-install $name 2>/dev/null
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$1/needed"
    while read -r file; do
        name=$(basename "$file")
        case $name in
        *.xz) name=${name%.xz}; xz -dc "$file" ;;
        *.zst) name=${name%.zst}; zstd -dc "$file" ;;
        *) cat "$file" ;;
        esac >"$ram/modules/$name"
        echo "$name" >>"$ram/modules/order"
    done <"$1/needed"
    (cd "$ram" && find . | cpio -o -H newc --quiet | gzip -1) >"$1/initramfs" || return 1
    rm -rf "$ram"
}

get_kernel() {
    local cache=${LOCO_GUEST_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/loco-guest}
    local package new version
    mkdir -p "$cache" || cannot "no folder $cache for the kernel"
    # An edit of what goes into the initramfs makes a new one.
    kernel=$cache/$(cat "$here/kernel.sh" "$here/init" | cksum | cut -d' ' -f1)
    [ ! -e "$kernel/whole" ] || return
    package=$(apt-cache depends linux-image-amd64 2>/dev/null \
        | awk '/Depends: linux-image/ { print $2; exit }')
    [ -n "$package" ] || cannot "apt knows no kernel package (linux-image-amd64)"
    new=$(mktemp -d "$cache/new.XXXXXX") || cannot "no folder in $cache"
    mkdir "$new/download"
    # apt-get leaves its rights where it may not write
    (cd "$new/download" && apt-get -q -o APT::Sandbox::User=root download "$package") \
        >"$new/log" 2>&1 || { cat "$new/log" >&2; rm -rf "$new"; cannot "no download of $package"; }
    dpkg-deb -x "$new"/download/*.deb "$new" || { rm -rf "$new"; broken "$package is broken"; }
    version=$(basename "$new"/lib/modules/*)
    mv "$new/boot/vmlinuz-$version" "$new/vmlinux"
    rm -rf "$new/download" "$new/usr" "$new/boot"
    unpack_kernel "$new/vmlinux"
    depmod -b "$new" "$version" && make_initramfs "$new" "$version" \
        || { rm -rf "$new"; broken "no initramfs"; }
    : >"$new/whole"
    chmod 755 "$new"
    mv -T "$new" "$kernel" 2>/dev/null || rm -rf "$new"
    [ -e "$kernel/whole" ] || broken "$kernel cannot be made"
}
