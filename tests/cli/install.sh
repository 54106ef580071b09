# SPDX-License-Identifier: Apache-2.0
# Installing: what is put where, that systemd takes the unit, that uninstall leaves nothing, and the Debian package.
. "$(dirname "$0")/common.bash"
source=$cli/../..
place="$TEST_TMP/a place"
settings=(PREFIX="$place" SYSCONFDIR="$TEST_TMP/etc" PROGRAM="$(realpath "$WHIMBREL")")

run_tool()
{
    "$@" >"$TEST_TMP/out" 2>"$TEST_TMP/err"
    rc=$? out=$(<"$TEST_TMP/out") err=$(<"$TEST_TMP/err")
}

run_tool env PREFIX="$place" PROGRAM="$TEST_TMP/none" "$source/tools/install-files" install
expect "nothing is built here: it says make" 1 err "run make first"
run_tool env "${settings[@]}" "$source/tools/install-files" install
expect "install" 0 out "$place/bin/whimbrel" out "$place/share/man/man1/whimbrel.1" out "whimbrel.service" \
    out "$TEST_TMP/etc/default/whimbrel"
expect_same "the program runs from there" "$("$place/bin/whimbrel" --version)" "$("$WHIMBREL" --version)"
expect_same "the version is that of the file" "$("$WHIMBREL" --version)" "whimbrel $(<"$source/VERSION")"
expect_same "nobody else may write to it" "$(stat -c %a "$place/bin/whimbrel")" 755

unit=$place/lib/systemd/system/whimbrel.service
expect_same "the unit names the program" "$(sed -n 's/^ExecStart=//p' "$unit")" \
    "\"$place/bin/whimbrel\" serve \$WHIMBREL_ARGS"
if command -v systemd-analyze >/dev/null; then
    expect_same "systemd takes the unit" "$(systemd-analyze verify --man=no "$unit" 2>&1 | grep whimbrel)" ""
else
    skip "systemd takes the unit" "there is no systemd-analyze"
fi

tools=$place/lib/whimbrel/tools
expect_same "what fetches the default model runs from there" \
    "$(WHIMBREL_CACHE="$TEST_TMP/no cache" "$tools/fetch-default-model" --is-there; echo $?) $(ls "$tools" | tr '\n' ' ')" \
    "1 cache-dir fetch-default-model fetch-wheel "
expect_same "and has the draft" "$(diff -r "$source/drafts" "$tools/../drafts")" ""

echo 'WHIMBREL_ARGS="--port 9"' >"$TEST_TMP/etc/default/whimbrel"
run_tool env "${settings[@]}" "$source/tools/install-files" install
expect_same "settings that were changed are kept" "$(<"$TEST_TMP/etc/default/whimbrel")" 'WHIMBREL_ARGS="--port 9"'
run_tool env "${settings[@]}" "$source/tools/install-files" uninstall
expect "uninstall" 0 out "is gone"
expect_same "uninstall leaves no file but them" "$(find "$place" "$TEST_TMP/etc" -type f)" "$TEST_TMP/etc/default/whimbrel"

# The container is built with every library that the build links.
for library in $(sed -n 's/^ *\(LIBS\|EDIT_LIBS\) *+\{0,1\}:\{0,1\}= *//p' "$source/mk/build.mk" | grep -oE -- '-l[a-z0-9]+' | sort -u); do
    case $library in
        -lm | -ldl | -ltinfo | -lbsd | -lmd | -lcrypto) continue ;; # of libc6-dev, libedit-dev and libssl-dev
    esac
    if grep -q "lib${library#-l}-dev" "$source/Containerfile"; then
        ok "the container has lib${library#-l}-dev"
    else
        bad "the container has lib${library#-l}-dev" "it is not in the Containerfile"
    fi
done

if command -v dpkg-deb >/dev/null && command -v dpkg-shlibdeps >/dev/null; then
    run_tool env DEB_DIR="$TEST_TMP" "$source/tools/make-deb" "$(realpath "$WHIMBREL")"
    expect "a Debian package" 0 out ".deb"
    deb=$(echo "$TEST_TMP"/*.deb)
    field() { dpkg-deb -f "$deb" "$1"; }
    expect_same "package: name and version" "$(field Package) $(field Version)" "whimbrel $(<"$source/VERSION")"
    case $(file -b "$WHIMBREL" 2>/dev/null) in
        *"statically linked"*) ;;
        *) case $(field Depends) in
            *libc6*libjansson4*) ok "package: its libraries" ;;
            *) bad "package: its libraries" "$(field Depends)" ;;
        esac ;;
    esac
    expect_same "package: its settings are conffiles" "$(dpkg-deb --ctrl-tarfile "$deb" | tar -xO ./conffiles)" \
        /etc/default/whimbrel
    dpkg-deb -x "$deb" "$TEST_TMP/deb"
    expect_same "package: the program runs" "$("$TEST_TMP/deb/usr/bin/whimbrel" --version)" "$("$WHIMBREL" --version)"
    expect_same "package: sums" "$(cd "$TEST_TMP/deb" && dpkg-deb --ctrl-tarfile "$deb" | tar -xO ./md5sums |
        md5sum -c --quiet 2>&1)" ""
    expect_same "package: it can fetch the default model" \
        "$(find "$TEST_TMP/deb/usr/lib/whimbrel/tools" -perm 755 -name fetch-default-model -printf %f)" fetch-default-model
    expect_same "package: all is root's" "$(dpkg-deb -c "$deb" | awk '$2 != "root/root"')" ""
else
    skip "a Debian package" "there is no dpkg-deb or dpkg-shlibdeps"
fi
finish
