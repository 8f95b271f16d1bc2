#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Make ./configure from configure.ac. Needed once in a git clone; a release tarball has it.
set -eu
cd "$(dirname "$0")"

missing=
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
need autoconf autoconf
need automake automake
need libtoolize libtool
need pkg-config pkg-config
[ -z "$missing" ] || {
    echo "autogen.sh: install these packages first (Debian's names):$missing" >&2
    exit 1
}
exec autoreconf --install --force "$@"
