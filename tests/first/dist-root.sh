#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `make dist` made, in bare systems: tests/first/dist-root.sh [SUITE...] (default: bookworm trixie), as root, with debootstrap
# and a network. In each suite, as a user without rights and in a system with nothing but the C library: install.sh from the
# archive, an answer of a tiny model, uninstall; then, as root, the Debian package. With qemu-user the aarch64 archive runs, too.
# Roots are kept as tar files in BARE_CACHE (/var/tmp/whimbrel-bare). Run by hand: it takes minutes.
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
CACHE=${BARE_CACHE:-/var/tmp/whimbrel-bare}
dist=${DIST_DIR:-$here/build/dist}
passed=0 failed=0
[[ $EUID == 0 ]] || { echo "skip: needs root"; exit 77; }
command -v debootstrap >/dev/null || { echo "skip: needs debootstrap"; exit 77; }
version=$(<"$here/VERSION")
machine=$(uname -m)
log=$(mktemp)

check()
{
    local name=$1
    shift
    if "$@" >"$log" 2>&1; then
        echo "ok $suite: $name"
        ((passed += 1))
    else
        echo "FAIL $suite: $name"
        tail -5 "$log" | sed 's/^/    | /'
        ((failed += 1))
    fi
}
# inside USER COMMAND: in the root, without a network.
inside()
{
    unshare --mount --pid --fork --kill-child --net bash -c '
        mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/tmp" && mount --rbind /dev "$1/dev" || exit 99
        exec chroot "$1" setpriv --reuid="$2" --regid="$2" --clear-groups env -i HOME="$3" PATH=/usr/sbin:/usr/bin:/sbin:/bin \
            sh -c "$4"' bare "$root" "$1" "$([[ $1 == 0 ]] && echo /root || echo /home/ann)" "$2"
}

for suite in "${@:-bookworm trixie}"; do
    for suite in $suite; do
        root=$(mktemp -d /var/tmp/whimbrel-dist.XXXXXX)
        tar=$CACHE/$suite-$machine.tar
        mkdir -p "$CACHE"
        if [[ ! -f $tar ]]; then
            debootstrap --variant=minbase "$suite" "$root" "${MIRROR:-http://deb.debian.org/debian}" >"$log" 2>&1 ||
                { echo "FAIL $suite: no root could be made"; tail -3 "$log"; ((failed += 1)); continue; }
            rm -rf "$root"/var/cache/apt/archives/*.deb
            tar -C "$root" -cf "$tar.new" . && mv "$tar.new" "$tar"
        else
            tar -C "$root" -xf "$tar"
        fi
        chmod 755 "$root"
        mkdir -p "$root/home/ann" "$root/dist"
        chown 1000:1000 "$root/home/ann"
        cp "$dist"/* "$root/dist/"
        cp -rL "$here/tests/data/golden/llama-f32" "$root/dist/model"
        check "install.sh as a user" inside 1000 "sh /dist/install.sh"
        check "the program answers" inside 1000 "~/.local/bin/whimbrel run /dist/model --ids '1 2 3' -n 4"
        check "and says what the machine has" inside 1000 "~/.local/bin/whimbrel doctor --seconds 0.01 || [ \$? = 1 ]"
        check "its server starts" inside 1000 "~/.local/bin/whimbrel serve --help >/dev/null"
        check "uninstall" inside 1000 "sh /dist/install.sh uninstall && [ -z \"\$(find ~/.local 2>/dev/null)\" ]"
        check "the Debian package" inside 0 "dpkg -i /dist/whimbrel_*_\$(dpkg --print-architecture).deb && whimbrel --version"
        rm -rf "$root"
    done
done
suite=aarch64
if [[ $machine == x86_64 && -f $dist/whimbrel-$version-aarch64.tar.gz ]] && command -v qemu-aarch64 >/dev/null; then
    work=$(mktemp -d)
    tar -C "$work" -xzf "$dist/whimbrel-$version-aarch64.tar.gz"
    check "the archive's program answers under qemu-user" qemu-aarch64 -L /usr/aarch64-linux-gnu \
        "$work/whimbrel-$version-aarch64/bin/whimbrel" run "$here/tests/data/golden/llama-f32" --ids '1 2 3' -n 4
    rm -rf "$work"
fi
rm -f "$log"
echo "RESULT passed=$passed failed=$failed skipped=0"
((failed == 0))
