#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The first five minutes on a bare system: tests/first/bare-root.sh [SUITE...] (default: bookworm trixie), as root, with
# debootstrap and a network. Roots are kept as tar files in BARE_CACHE (/var/tmp/whimbrel-bare). In each suite:
#   1. a user without sudo and terminal gets the one line that root has to run, and status 1
#   2. root, with empty package lists: make serve installs, builds, fetches, answers, and ends well with Ctrl-C
#   3. the user after that: make names the chown line; with a copy of his own, the second start needs no network
#   4. README's commands, one after the other (tests/first/readme.sh)
#   5. the tests that need no client packages pass there: setup, check, unit, cli (BARE_STAGES says others)
# Prints one line for each, and `RESULT ...` last. The folder has a blank in its name, and no .git.
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
CACHE=${BARE_CACHE:-/var/tmp/whimbrel-bare}
STAGES=${BARE_STAGES:-setup check unit cli}
READY_S=${BARE_LIMIT:-3600}
passed=0 failed=0

ok() { echo "ok $suite: $1"; ((passed += 1)); }
bad() { echo "FAIL $suite: $1"; tail -15 "$log" | sed 's/^/    | /'; ((failed += 1)); }

[[ $EUID == 0 ]] || { echo "skip: needs root"; exit 77; }
command -v debootstrap >/dev/null || { echo "skip: needs debootstrap (Debian: apt-get install debootstrap)"; exit 77; }

# mirror SUITE: where the suite comes from.
mirror()
{
    case $1 in
        jammy | noble)
            [[ $(uname -m) == x86_64 ]] && echo http://archive.ubuntu.com/ubuntu || echo http://ports.ubuntu.com/ubuntu-ports ;;
        *) echo http://deb.debian.org/debian ;;
    esac
}

make_root()
{
    local tar=$CACHE/$suite-$(uname -m).tar
    mkdir -p "$CACHE"
    if [[ ! -f $tar ]]; then
        debootstrap --variant=minbase "$suite" "$root" "$(mirror "$suite")" >"$log" 2>&1 || return 1
        rm -rf "$root"/var/cache/apt/archives/*.deb
        tar -C "$root" -cf "$tar.new" . && mv "$tar.new" "$tar"
    else
        tar -C "$root" -xf "$tar"
    fi
    chmod 755 "$root"
    [[ $suite == jammy || $suite == noble ]] &&
        echo "deb $(mirror "$suite") $suite main universe" >"$root/etc/apt/sources.list"
    # This machine's way to the registries, if it has one of its own.
    cp -f /etc/pip.conf "$root/etc/" 2>/dev/null
    cp -f /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null
    cp -rf /usr/local/share/ca-certificates "$root/usr/local/share/" 2>/dev/null
    mkdir -p "$root/src/a whimbrel"
    (cd "$here" && git ls-files -z | tar --null -T - -cf -) | tar -C "$root/src/a whimbrel" -xf -
}

# inside USER NETWORK COMMAND: in the root, in namespaces of its own, with nothing of this environment.
inside()
{
    local user=$1 net=$2 home=/root
    [[ $user == root ]] || home=/home/$user
    shift 2
    [[ $net == net ]] && net=() || net=(--net)
    unshare --mount --pid --fork --kill-child "${net[@]}" bash -c '
        mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/tmp" && mount --rbind /dev "$1/dev" &&
            mount --rbind /sys "$1/sys" || exit 99
        exec chroot "$1" setpriv --reuid="$2" --regid="$2" --clear-groups env -i HOME="$3" PATH=/usr/sbin:/usr/bin:/sbin:/bin \
            PIP_CERT= bash -c "$4"' bare "$root" "$([[ $user == root ]] && echo 0 || echo 1000)" "$home" "$*" \
        >"$log" 2>&1 </dev/null
}

# Start, wait for the ready block, ask something, Ctrl-C the whole group as a terminal would; the status is make's.
read -r -d '' SERVE <<'END'
cd "$DIR" || exit 90
set -m
make serve >serve.log 2>&1 &
for i in $(seq $LIMIT); do
    grep -q "^ready: " serve.log && break
    kill -0 $! 2>/dev/null || break
    sleep 1
done
cat serve.log
grep -q "^ready: " serve.log || exit 91
exec 3<>/dev/tcp/127.0.0.1/8080 || exit 92
printf 'POST /v1/completions HTTP/1.0\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{"prompt":"The sea is","max_tokens":4,"seed":1}   ' >&3
timeout 60 cat <&3 | tee answer
grep -q '200 OK' answer || exit 93
kill -INT -- -$!
wait $!
echo "make ended with $?"
grep -q '\*\*\*' serve.log && exit 94
exit 0
END

for suite in "${@:-bookworm trixie}"; do
    for suite in $suite; do
        root=$(mktemp -d /var/tmp/whimbrel-root.XXXXXX)
        log=$root.log
        if ! make_root; then
            bad "no root could be made"
            continue
        fi
        inside root net 'apt-get update -q && apt-get install -y -q --no-install-recommends make && useradd -m -u 1000 ann' ||
            bad "make cannot be installed"
        dir='/src/a whimbrel'
        inside ann net "cd '$dir' && cp -r . ~/own && cd ~/own && make serve"
        rc=$?
        if [[ $rc != 0 && $(grep -c 'apt-get install -y' "$log") == 1 ]] &&
            grep -q 'apt-get install -y.*gcc.*libjansson-dev.*python3-pip' "$log"; then
            ok "a user without sudo gets one line to run as root"
        else
            bad "a user without sudo gets one line to run as root (status $rc)"
        fi
        if inside root net "rm -rf /var/lib/apt/lists/*; DIR='$dir' LIMIT=$READY_S; $SERVE"; then
            inside root net 'gcc --version'
            ok "root: make serve from nothing to an answer, $(head -1 "$log")"
        else
            bad "root: make serve from nothing to an answer (status $?)"
        fi
        inside ann net "cd '$dir' && make serve"
        if grep -q 'sudo chown -R 1000 build' "$log"; then
            ok "the user after that: the chown line"
        else
            bad "the user after that: the chown line"
        fi
        rm -rf "$root/home/ann/own" "$root/home/ann/.cache"
        mkdir -p "$root/home/ann/.cache"
        cp -a "$root/src/a whimbrel" "$root/home/ann/own" # built
        cp -a "$root/root/.cache/whimbrel" "$root/home/ann/.cache/"
        chown -R 1000:1000 "$root/home/ann"
        if inside ann none "DIR=~/own LIMIT=600; $SERVE" || [[ $? == 92 ]]; then
            ok "a second start without a network" # 92: loopback is down in there
        else
            bad "a second start without a network"
        fi
        if inside root net "apt-get install -y -q curl && cd '$dir' && READY_S=$READY_S tests/first/readme.sh"; then
            ok "README: $(tail -1 "$log")"
        else
            bad "README"
        fi
        if inside root net "cd '$dir' && TEST_TIMEOUT=1200 tests/run-tests $STAGES"; then
            ok "tests: $(tail -1 "$log")"
        else
            bad "tests"
            kept=$here/build/test-logs/bare-$suite
            rm -rf "$kept" && mkdir -p "$kept" && cp -r "$log" "$root/src/a whimbrel/build/test-logs" "$kept/" &&
                echo "    what they said: $kept"
        fi
        rm -rf "$root" "$log"
    done
done
echo "RESULT passed=$passed failed=$failed skipped=0"
((failed == 0))
