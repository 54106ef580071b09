#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What `make dist` made, in bare systems: tests/first/dist-root.sh [SUITE[:ARCH]...] (default: bookworm trixie jammy noble, and
# bookworm:aarch64), as root, with debootstrap and a network. In each suite, as a user without rights and in a system with
# nothing but the C library: install.sh from the archive, also a damaged one, an answer of a tiny model, a server, what is said
# without a MODEL, uninstall; then, as root, the Debian package. A system of the other CPU family needs qemu-user-static, known to the kernel (binfmt_misc).
# Roots are kept as tar files in BARE_CACHE (/var/tmp/whimbrel-bare). Run by hand: it takes minutes.
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
CACHE=${BARE_CACHE:-/var/tmp/whimbrel-bare}
dist=${DIST_DIR:-$here/build/dist}
passed=0 failed=0 skipped=0
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
# inside USER COMMAND: in the root, without a network but for the loopback.
inside()
{
    unshare --mount --pid --fork --kill-child --net bash -c '
        ip link set lo up && mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/tmp" && mount --rbind /dev "$1/dev" || exit 99
        exec chroot "$1" setpriv --reuid="$2" --regid="$2" --clear-groups env -i HOME="$3" PATH=/usr/sbin:/usr/bin:/sbin:/bin \
            bash -c "$4"' bare "$root" "$1" "$([[ $1 == 0 ]] && echo /root || echo /home/ann)" "$2"
}

# make_root SUITE ARCH: into $root. A suite that this debootstrap does not know yet is made like the others of its kind.
make_root()
{
    local tar=$CACHE/$1-$2.tar script deb mirror=http://deb.debian.org/debian
    case $2 in x86_64) deb=amd64 ;; aarch64) deb=arm64 ;; esac
    mkdir -p "$CACHE"
    if [[ ! -f $tar ]]; then
        script=sid
        case $1 in
            jammy | noble)
                script=gutsy
                [[ $deb == amd64 ]] && mirror=http://archive.ubuntu.com/ubuntu || mirror=http://ports.ubuntu.com/ubuntu-ports ;;
        esac
        debootstrap --variant=minbase --arch=$deb "$1" "$root" "${MIRROR:-$mirror}" $script >"$log" 2>&1 || return
        rm -rf "$root"/var/cache/apt/archives/*.deb
        tar -C "$root" -cf "$tar.new" . && mv "$tar.new" "$tar"
    else
        tar -C "$root" -xf "$tar"
    fi
    chmod 755 "$root"
}

read -r -d '' SERVE <<'END'
~/.local/bin/whimbrel serve /dist/model --port 8080 --threads 1 --kv-mem 64M >/tmp/log 2>&1 &
for i in $(seq 600); do
    grep -q "^ready: " /tmp/log && break
    sleep 0.1
done
cat /tmp/log
exec 3<>/dev/tcp/127.0.0.1/8080 || exit 92
printf 'POST /v1/completions HTTP/1.0\r\nHost: localhost\r\nContent-Length: 35\r\n\r\n{"prompt":"abc","max_tokens":4    }' >&3
timeout 60 cat <&3 | tee /tmp/answer
grep -q '200 OK' /tmp/answer && ~/.local/bin/whimbrel ps | grep ' ready ' && kill %1 && wait %1
END

for what in ${*:-bookworm trixie jammy noble bookworm:aarch64}; do
    suite=$what arch=$machine
    [[ $what != *:* ]] || arch=${what#*:}
    root=$(mktemp -d /var/tmp/whimbrel-dist.XXXXXX)
    if [[ $arch != "$machine" ]] && ! grep -qx enabled "/proc/sys/fs/binfmt_misc/qemu-$arch" 2>/dev/null; then
        echo "skip $suite: the kernel runs no programs for $arch (qemu-user-static, binfmt_misc)"
        ((skipped += 1))
    elif ! make_root "${what%:*}" "$arch"; then
        echo "FAIL $suite: no root could be made"
        tail -3 "$log" | sed 's/^/    | /'
        ((failed += 1))
    else
        mkdir -p "$root/home/ann" "$root/dist/damaged"
        chown 1000:1000 "$root/home/ann"
        cp "$dist"/* "$root/dist/"
        cp -rL "$here/tests/data/golden/llama-f32" "$root/dist/model"
        cp "$here"/tests/data/letters/* "$root/dist/model/"
        cp "$dist/install.sh" "$dist/SHA256SUMS" "$dist/whimbrel-$version-$arch.tar.gz" "$root/dist/damaged/"
        printf 'x' | dd of="$root/dist/damaged/whimbrel-$version-$arch.tar.gz" bs=1 seek=5000 conv=notrunc status=none
        check "install.sh as a user" inside 1000 "sh /dist/install.sh"
        check "the program answers" inside 1000 "~/.local/bin/whimbrel run /dist/model --ids '1 2 3' -n 4"
        check "and says what the machine has" inside 1000 "~/.local/bin/whimbrel doctor --seconds 0.01 || [ \$? = 1 ]"
        check "its server answers" inside 1000 "$SERVE"
        check "without a MODEL and pip it says what to do" inside 1000 "! ~/.local/bin/whimbrel serve --port 0 >/tmp/said 2>&1 &&
            cat /tmp/said && grep 'python3-pip' /tmp/said && grep 'whimbrel serve qwen3:0.6b' /tmp/said"
        check "a damaged archive is refused" inside 1000 "! sh /dist/damaged/install.sh 2>&1 | tee /tmp/said | grep installed &&
            grep 'is damaged or not the right file' /tmp/said"
        check "uninstall" inside 1000 "sh /dist/install.sh uninstall && [ -z \"\$(find ~/.local 2>/dev/null)\" ]"
        check "the Debian package" inside 0 "dpkg -i /dist/whimbrel_*_\$(dpkg --print-architecture).deb && whimbrel --version &&
            whimbrel run /dist/model --ids '1 2 3' -n 4 && dpkg -r whimbrel && [ ! -e /usr/bin/whimbrel ]"
    fi
    rm -rf "$root"
done
rm -f "$log"
echo "RESULT passed=$passed failed=$failed skipped=$skipped"
((failed == 0))
