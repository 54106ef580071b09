#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs whimbrel from an archive, for one user and without root.
#   install.sh [ARCHIVE|URL]   verify the checksum and install, or put a newer version in place of an older one.
#                              Without a name: the archive beside this script; inside an archive: what lies here
#   install.sh uninstall       take it away again; models and settings stay
# PREFIX=folder: where to (default: ~/.local). SHA256SUMS must lie beside the archive. Nothing is fetched but by a URL.
set -eu
me=${0##*/}
fail()
{
    echo "$me: $*" >&2
    exit 1
}

case ${1-} in
-h | --help)
    sed -n '3,8s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
-*) fail "there is no option $1; PREFIX=folder chooses the place, \"$me uninstall\" removes it" ;;
esac
[ $# -le 1 ] || fail "one archive at a time"
if [ -z "${PREFIX:-}" ]; then
    [ -n "${HOME:-}" ] || fail "HOME is not set: say PREFIX=folder"
    PREFIX=$HOME/.local
fi
case $PREFIX in
/*) ;;
*) PREFIX=$PWD/$PREFIX ;;
esac
list=$PREFIX/share/whimbrel/installed-files
here=$(cd "$(dirname "$0")" && pwd)

# remove_listed FILE [KEEP]: the files that a list names below PREFIX, but for those that KEEP names, and empty folders.
remove_listed()
{
    while IFS= read -r path; do
        case $path in
        '' | /* | *..*) continue ;; # nothing outside of PREFIX
        esac
        if [ -z "${2-}" ] || ! grep -qxF -- "$path" "$2"; then
            rm -f "$PREFIX/$path"
        fi
    done <"$1"
    sed 's|/[^/]*$||' "$1" | sort -ru | while IFS= read -r folder; do
        while [ -n "$folder" ] && rmdir "$PREFIX/$folder" 2>/dev/null; do
            case $folder in
            */*) folder=${folder%/*} ;;
            *) folder= ;;
            esac
        done
    done
}

if [ "${1-}" = uninstall ]; then
    [ -f "$list" ] || fail "nothing was installed in $PREFIX by this script: there is no $list"
    [ -w "${list%/*}" ] || fail "$PREFIX is not yours to write"
    remove_listed "$list"
    rm -f "$list"
    rmdir "${list%/*}" "$PREFIX/share" "$PREFIX" 2>/dev/null || :
    echo "whimbrel is gone from $PREFIX; models and conversations stay (~/.cache/whimbrel, ~/.cache/huggingface)"
    exit 0
fi

work=$(mktemp -d) || fail "there is no place for temporary files; say TMPDIR=folder"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# sum_of FILE: its SHA-256.
sum_of()
{
    if command -v sha256sum >/dev/null; then
        sha256sum <"$1" | cut -d' ' -f1
    elif command -v shasum >/dev/null; then
        shasum -a 256 <"$1" | cut -d' ' -f1
    elif command -v openssl >/dev/null; then
        openssl dgst -sha256 -r <"$1" | cut -d' ' -f1
    else
        fail "the checksum cannot be verified: there is no sha256sum, shasum or openssl here; install one of them"
    fi
}

# fetch URL FILE
fetch()
{
    if command -v curl >/dev/null; then
        curl -fsSL -o "$2" -- "$1" || fail "$1 cannot be downloaded"
    elif command -v wget >/dev/null; then
        wget -q -O "$2" -- "$1" || fail "$1 cannot be downloaded"
    else
        fail "neither curl nor wget is here to download $1; download it in another way, with SHA256SUMS, and give me the file"
    fi
}

# verify ARCHIVE SUMS: the sum that SUMS has for the archive's name is the archive's.
verify()
{
    [ -f "$2" ] || fail "there is no SHA256SUMS next to ${1##*/}: download it from where the archive came from"
    wanted=$(awk -v name="${1##*/}" '{ file = $2; sub(/^\*/, "", file) } file == name { print $1; exit }' "$2")
    [ -n "$wanted" ] || fail "SHA256SUMS has no line for ${1##*/}: they are not of the same version"
    got=$(sum_of "$1") || exit 1
    [ "$got" = "$wanted" ] ||
        fail "${1##*/} is damaged or not the right file: its SHA-256 is $got, expected $wanted; download it again"
    echo "verified ${1##*/}"
}

# unpack ARCHIVE: for now; sets root to the folder that it has.
unpack()
{
    mkdir "$work/in"
    tar -xzf "$1" -C "$work/in" || fail "$1 cannot be unpacked"
    root=$(echo "$work"/in/whimbrel-*)
    [ -x "$root/bin/whimbrel" ] || fail "$1 is not an archive of whimbrel: it has no bin/whimbrel"
}

machine=$(uname -m)
case $machine in
arm64) machine=aarch64 ;;
amd64) machine=x86_64 ;;
esac
source=${1-}
if [ -z "$source" ] && [ -x "$here/bin/whimbrel" ]; then
    root=$here # unpacked: whoever did that has verified it, or not
else
    if [ -z "$source" ]; then
        n=0
        for file in "$here"/whimbrel-*-"$machine".tar.gz; do
            [ -f "$file" ] || continue
            source=$file
            n=$((n + 1))
        done
        [ $n -gt 0 ] || fail "there is no whimbrel-VERSION-$machine.tar.gz next to this script: name an archive or its URL"
        [ $n -eq 1 ] || fail "several archives are next to this script: name one of them"
    fi
    case $source in
    http://* | https://* | file://*)
        fetch "$source" "$work/${source##*/}"
        fetch "${source%/*}/SHA256SUMS" "$work/SHA256SUMS"
        source=$work/${source##*/}
        ;;
    esac
    [ -f "$source" ] || fail "there is no archive $source"
    folder=$(cd "$(dirname "$source")" && pwd)
    source=$folder/${source##*/}
    verify "$source" "$folder/SHA256SUMS"
    unpack "$source"
fi

version=$("$root/bin/whimbrel" --version 2>"$work/why") || fail "this program does not run on this machine ($machine): $(
    head -n 1 "$work/why"
). The archive's README says what it needs"

# Everything is put beside what is there and renamed, the program last, so that what runs goes on running.
mkdir -p "$PREFIX/bin" "$PREFIX/share/whimbrel" 2>/dev/null && [ -w "$PREFIX/bin" ] && [ -w "$PREFIX/share/whimbrel" ] ||
    fail "$PREFIX cannot be written: say PREFIX=folder for another place"
before=
if [ -x "$PREFIX/bin/whimbrel" ]; then
    before=$("$PREFIX/bin/whimbrel" --version 2>/dev/null) || before="another version"
fi
lib=
[ ! -d "$root/lib" ] || lib=lib # older archives have none
(cd "$root" && find share $lib bin -type f | sort -r) >"$work/files"
while IFS= read -r path; do
    folder=$PREFIX/${path%/*}
    mkdir -p "$folder" && cp "$root/$path" "$PREFIX/$path.new" && mv -f "$PREFIX/$path.new" "$PREFIX/$path" ||
        fail "$PREFIX/$path cannot be written; what was there before still is, or run me again"
done <"$work/files"
if [ -f "$list" ]; then
    remove_listed "$list" "$work/files"
fi
cp "$work/files" "$list"

if [ -z "$before" ]; then
    echo "installed $version in $PREFIX/bin"
elif [ "$before" = "$version" ]; then
    echo "installed $version in $PREFIX/bin again"
else
    echo "installed $version in $PREFIX/bin instead of $before"
fi
case :${PATH:-}: in
*:"$PREFIX/bin":*) echo "next: whimbrel doctor" ;;
*)
    echo "next: put it into your PATH, for example with this line in ~/.profile:"
    echo "    export PATH=\"$PREFIX/bin:\$PATH\""
    ;;
esac
