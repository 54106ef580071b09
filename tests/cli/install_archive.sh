# SPDX-License-Identifier: Apache-2.0
# packaging/install.sh with an archive that is packed here: into a clean HOME, with what can be wrong. tests/first/dist-root.sh
# tries what `make dist` makes in bare systems.
. "$(dirname "$0")/common.bash"
source=$cli/../..
machine=$(uname -m)
version=$(<"$source/VERSION")
name=whimbrel-$version-$machine
folder="$TEST_TMP/an archive"
export HOME="$TEST_TMP/a home"
mkdir -p "$folder" "$HOME"
unset PREFIX

# pack VERSION: an archive with the program, or with one that only says its version.
pack()
{
    local root=$TEST_TMP/pack/whimbrel-$1-$machine
    mkdir -p "$root/bin" "$root/share/man/man1" "$root/share/doc/whimbrel" "$root/lib/whimbrel/tools"
    printf '#!/bin/sh\n[ $# = 0 ] || exit 0 # it can\necho "the stand-in fetches"\nmkdir -p "$WHIMBREL_CACHE" && cp "%s" "$WHIMBREL_CACHE/%s"\n' \
        "$(realpath "$data/llama-mixed-gguf/model.gguf")" SmolLM2-135M-Instruct.Q4_1.gguf \
        >"$root/lib/whimbrel/tools/fetch-default-model"
    chmod 755 "$root/lib/whimbrel/tools/fetch-default-model"
    if [[ $1 == "$version" ]]; then
        cp "$WHIMBREL" "$root/bin/whimbrel"
        echo new >"$root/share/doc/whimbrel/new page"
    else
        printf '#!/bin/sh\necho whimbrel %s\n' "$1" >"$root/bin/whimbrel"
        chmod 755 "$root/bin/whimbrel"
        echo old >"$root/share/doc/whimbrel/old page"
    fi
    "$WHIMBREL" help --man >"$root/share/man/man1/whimbrel.1"
    cp "$source/packaging/install.sh" "$root/"
    tar -C "$TEST_TMP/pack" -czf "$folder/${root##*/}.tar.gz" "${root##*/}"
    (cd "$folder" && sha256sum -- *.tar.gz >SHA256SUMS)
}
install_it()
{
    sh "$folder/install.sh" "$@" >"$TEST_TMP/out" 2>"$TEST_TMP/err"
    rc=$?
    out=$(<"$TEST_TMP/out")
    err=$(<"$TEST_TMP/err")
}

cp "$source/packaging/install.sh" "$folder/"
install_it
expect "there is no archive" 1 err "there is no whimbrel-VERSION-$machine.tar.gz next to this script"
pack 0.0.9
install_it
expect "an archive, into ~/.local" 0 out "verified whimbrel-0.0.9-$machine.tar.gz" \
    out "installed whimbrel 0.0.9 in $HOME/.local/bin" out "export PATH=\"$HOME/.local/bin:"
PATH=$HOME/.local/bin:$PATH install_it
expect "again, with its folder in PATH" 0 out "bin again" out "next: whimbrel doctor"
pack "$version"
install_it
expect "two archives: it asks which" 1 err "several archives are next to this script"
install_it "$folder/$name.tar.gz"
expect "a newer version in its place" 0 out "installed whimbrel $version in" out "instead of whimbrel 0.0.9"
expect_same "the program runs" "$("$HOME/.local/bin/whimbrel" --version)" "whimbrel $version"
expect_same "what only the old one had is gone" \
    "$(cd "$HOME/.local" && find . -type f | sort | tr '\n' ' ')" \
    "./bin/whimbrel ./lib/whimbrel/tools/fetch-default-model ./share/doc/whimbrel/new page ./share/man/man1/whimbrel.1 ./share/whimbrel/installed-files "
ask=(run --ids "1 2 3" -n 4 --temp 0)
run_it "${ask[@]:0:1}" "$data/llama-mixed-gguf/model.gguf" "${ask[@]:1}" -q
want=$out
WHIMBREL=$HOME/.local/bin/whimbrel WHIMBREL_CACHE=$TEST_TMP/cache run_it "${ask[@]}"
expect "without the default model: what was installed with it fetches it" 0 err "the stand-in fetches"
expect_same "and then it is used" "$out" "$want"
WHIMBREL=$HOME/.local/bin/whimbrel WHIMBREL_CACHE=$TEST_TMP/cache run_it "${ask[@]}"
[[ $rc == 0 && $err != *stand-in* ]] && ok "once" || bad "once" "$rc: $err"
rm -r "$TEST_TMP/cache"
WHIMBREL=$HOME/.local/bin/whimbrel WHIMBREL_CACHE=$TEST_TMP/cache run_it "${ask[@]}" -q
[[ $rc == 0 && $err != *stand-in* ]] && ok "quietly with -q" || bad "quietly with -q" "$rc: $err"
echo mine >"$HOME/.local/bin/other"
install_it uninstall
expect "uninstall" 0 out "whimbrel is gone from $HOME/.local"
expect_same "takes its own and nothing else" "$(find "$HOME" -type f)" "$HOME/.local/bin/other"
install_it uninstall
expect "there is nothing to take away" 1 err "nothing was installed"
PREFIX="$TEST_TMP/else where" install_it "$folder/$name.tar.gz"
expect "another place" 0 out "in $TEST_TMP/else where/bin"
sh "$TEST_TMP/pack/$name/install.sh" >"$TEST_TMP/out" 2>&1
expect_same "from what is unpacked" "$("$HOME/.local/bin/whimbrel" --version)" "whimbrel $version"
rm -rf "$HOME"/.local

sed -i "s/^[0-9a-f]*  $name/$(printf '%064d' 0)  $name/" "$folder/SHA256SUMS"
install_it "$folder/$name.tar.gz"
expect "a wrong checksum" 1 err "is damaged or not the right file"
expect_same "nothing is installed then" "$(find "$HOME" -type f)" ""
grep -v "$name" "$folder/SHA256SUMS" >"$TEST_TMP/sums"
cp "$TEST_TMP/sums" "$folder/SHA256SUMS"
install_it "$folder/$name.tar.gz"
expect "sums of another version" 1 err "SHA256SUMS has no line for $name.tar.gz"
rm "$folder/SHA256SUMS"
install_it "$folder/$name.tar.gz"
expect "no sums" 1 err "there is no SHA256SUMS"
(cd "$folder" && sha256sum -- *.tar.gz >SHA256SUMS)

# Commands that are missing. Its own, of those that it needs at all.
mkdir "$TEST_TMP/bin"
for tool in sh sed awk grep tar gzip mktemp rm rmdir mkdir cp mv cut head dirname uname find sort; do
    ln -s "$(command -v $tool)" "$TEST_TMP/bin/"
done
PATH=$TEST_TMP/bin install_it "$folder/$name.tar.gz"
expect "nothing can make checksums" 1 err "there is no sha256sum, shasum or openssl here"
PATH=$TEST_TMP/bin install_it "https://example.invalid/$name.tar.gz"
expect "nothing can fetch" 1 err "neither curl nor wget is here"
if command -v openssl >/dev/null; then
    ln -s "$(command -v openssl)" "$TEST_TMP/bin/"
    PATH=$TEST_TMP/bin install_it "$folder/$name.tar.gz"
    expect "openssl makes them, too" 0 out "verified"
fi
if command -v curl >/dev/null; then
    install_it "file://${folder// /%20}/$name.tar.gz"
    expect "by a URL" 0 out "verified $name.tar.gz" out "bin again"
fi
: >"$TEST_TMP/file"
PREFIX=$TEST_TMP/file install_it "$folder/$name.tar.gz"
expect "a place that cannot be written" 1 err "$TEST_TMP/file cannot be written: say PREFIX=folder"
if [[ $EUID != 0 ]]; then
    mkdir -p "$TEST_TMP/locked" && chmod 555 "$TEST_TMP/locked"
    PREFIX=$TEST_TMP/locked install_it "$folder/$name.tar.gz"
    expect "a folder that is read-only" 1 err "cannot be written"
fi
printf '#!/bin/sh\necho no library >&2; exit 127\n' >"$TEST_TMP/pack/$name/bin/whimbrel"
tar -C "$TEST_TMP/pack" -czf "$folder/$name.tar.gz" "$name"
(cd "$folder" && sha256sum -- *.tar.gz >SHA256SUMS)
PREFIX=$TEST_TMP/fresh install_it "$folder/$name.tar.gz"
expect "a program that does not run here" 1 err "does not run on this machine" err "no library"
expect_same "is not installed" "$(find "$TEST_TMP/fresh" -type f 2>/dev/null)" ""
install_it --force
expect "an unknown option" 1 err "there is no option --force"
finish
