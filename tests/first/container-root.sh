#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Containerfile, where no registry can be reached: tests/first/container-root.sh [archive|source]... (default: both), as
# root, with buildah and a network. Its base image is made by debootstrap, under the name that the file asks for. The image
# then serves a tiny model: to whoever has the key, as a user without rights. `archive` takes what `make dist` made.
# Images lie in a folder of their own, which goes at the end. Run by hand: source compiles for minutes.
set -u
here=$(cd "$(dirname "$0")/../.." && pwd)
CACHE=${BARE_CACHE:-/var/tmp/whimbrel-bare} BASE=bookworm NAME=docker.io/library/debian:12-slim
KEY=a-key-of-this-test PORT=${PORT:-8123}
passed=0 failed=0
[[ $EUID == 0 ]] || { echo "skip: needs root"; exit 77; }
for tool in buildah debootstrap curl; do
    command -v $tool >/dev/null || { echo "skip: needs $tool"; exit 77; }
done
work=$(mktemp -d /var/tmp/whimbrel-container.XXXXXX)
log=$work/log server=
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
images() { buildah --root "$work/images" --runroot "$work/run" "$@"; }
leave()
{
    [[ -z $server ]] || kill "$server" 2>/dev/null
    images rm --all >/dev/null 2>&1
    rm -rf "$work"
}
trap leave EXIT

check()
{
    local name=$1
    shift
    if "$@" >"$log" 2>&1; then
        echo "ok $origin: $name"
        ((passed += 1))
    else
        echo "FAIL $origin: $name"
        tail -5 "$log" | sed 's/^/    | /'
        ((failed += 1))
    fi
}

make_base()
{
    local tar=$CACHE/$BASE-$(uname -m).tar root=$work/root box
    mkdir -p "$CACHE"
    if [[ ! -f $tar ]]; then
        debootstrap --variant=minbase $BASE "$root" "${MIRROR:-http://deb.debian.org/debian}" || return
        tar -C "$root" -cf "$tar.new" . && mv "$tar.new" "$tar"
        rm -rf "$root"
    fi
    box=$(images from scratch) && images add -q "$box" "$tar" / && images commit -q "$box" $NAME
}

answers() { curl -fsS -m 60 "http://127.0.0.1:$PORT/v1/completions" -d '{"prompt":"abc","max_tokens":4}' "$@" | grep '"length"'; }
refuses() { ! answers && curl -sS "http://127.0.0.1:$PORT/v1/completions" -d '{}' | grep invalid_api_key; }

origin=base
check "the base image" make_base
mkdir "$work/model"
cp -L "$here"/tests/data/golden/llama-f32/* "$here"/tests/data/letters/* "$work/model/"
chmod -R a+rX "$work"
for origin in "${@:-archive source}"; do
    for origin in $origin; do
        cd "$here" || exit
        check "the image" images bud --pull-never --build-arg ORIGIN="$origin" -t whimbrel -f Containerfile .
        box=$(images from --pull-never localhost/whimbrel) || { ((failed += 1)); continue; }
        check "the user has no rights" bash -c "$(declare -f images); work=$work; images run $box -- id -u | grep -x 10001"
        images run -v "$work/model:/models:ro" -e WHIMBREL_API_KEY=$KEY "$box" -- \
            /usr/bin/whimbrel serve --host 0.0.0.0 --port "$PORT" --log-format json /models >"$work/said" 2>&1 &
        server=$!
        for ((i = 0; i < 300; i++)); do
            curl -fs "http://127.0.0.1:$PORT/readyz" >/dev/null && break
            sleep 0.2
        done
        check "it answers" answers -H "Authorization: Bearer $KEY"
        check "and wants its key" refuses
        check "its check of health" bash -c "$(declare -f images); work=$work; images run $box -- curl -fsS http://127.0.0.1:$PORT/livez"
        for pid in $(pgrep -fx "/usr/bin/whimbrel serve --host 0.0.0.0 --port $PORT --log-format json /models"); do
            kill "$pid"
        done
        check "it ends when it is told" wait $server
        server=
    done
done
echo "RESULT passed=$passed failed=$failed skipped=0"
((failed == 0))
