# SPDX-License-Identifier: Apache-2.0
# The library as another program has it: what is installed and exported, the examples built with nothing but the
# installed header and pkg-config, shared and static, and run.
. "$(dirname "$0")/common.bash"
source=$cli/../..
prefix=$TEST_TMP/prefix
settings=(PREFIX="$prefix" SYSCONFDIR="$TEST_TMP/etc" PROGRAM="$(realpath "$WHIMBREL")")
header=$prefix/include/whimbrel/whimbrel.h

if [[ ! -e $(dirname "$(realpath "$WHIMBREL")")/libwhimbrel.a ]]; then
    skip "the library" "it is not built beside this program"
    finish
fi
run_tool()
{
    "$@" >"$TEST_TMP/out" 2>"$TEST_TMP/err"
    rc=$? out=$(<"$TEST_TMP/out") err=$(<"$TEST_TMP/err")
}

run_tool env "${settings[@]}" "$source/tools/install-files" install
expect "install" 0 out "$header" out "$prefix/lib/libwhimbrel.a" out "$prefix/lib/pkgconfig/whimbrel.pc"

functions=$(grep -oE 'whimbrel_[a-z_]+\(' <(sed -n '/^WHIMBREL_API/,/;/p' "$header") | tr -d '(' | sort -u)
expect_same "the header has its functions" "$(wc -l <<<"$functions")" "$(grep -c '^WHIMBREL_API' "$header")"
expect_same "the shared library exports these" "$(nm -D --defined-only "$prefix/lib/libwhimbrel.so" | awk '{print $3}' | sort)" \
    "$functions"
expect_same "the static one has no other names" \
    "$(nm -g --defined-only "$prefix/lib/libwhimbrel.a" | awk 'NF == 3 {print $3}' | sort)" "$functions"
expect_same "the shared library needs no server and no downloads" \
    "$(objdump -p "$prefix/lib/libwhimbrel.so" | grep -cE 'NEEDED.*(libssl|libcrypto|libcurl|libedit)')" 0

printf '#include <whimbrel/whimbrel.h>\nint main(void) { return whimbrel_version()[0] == 0; }\n' >"$TEST_TMP/plain.c"
run_tool gcc -std=c99 -pedantic -Wall -Wextra -Werror -I"$prefix/include" -c -o "$TEST_TMP/plain.o" "$TEST_TMP/plain.c"
expect "the header is plain C99" 0
if command -v g++ >/dev/null; then
    cp "$TEST_TMP/plain.c" "$TEST_TMP/plain.cc"
    run_tool g++ -Wall -Wextra -Werror -I"$prefix/include" -o "$TEST_TMP/plain" "$TEST_TMP/plain.cc" -L"$prefix/lib" -lwhimbrel
    expect "and C++" 0
else
    skip "and C++" "there is no g++"
fi
for file in "$header" "$source"/examples/*.c; do
    most=60
    [[ $file == *.h ]] && most=400
    if (($(wc -l <"$file") < most)); then ok "${file##*/} is short"; else bad "${file##*/} is short" "$(wc -l <"$file")"; fi
done

if ! command -v pkg-config >/dev/null; then
    skip "programs that use it" "there is no pkg-config"
    finish
fi
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
expect_same "its version" "$(pkg-config --modversion whimbrel)" "$(<"$source/VERSION")"
for name in chat batch; do
    # shellcheck disable=SC2046
    run_tool gcc -Wall -Wextra -Werror -o "$TEST_TMP/$name" "$source/examples/$name.c" \
        $(pkg-config --cflags --libs whimbrel)
    expect "$name builds" 0
    # shellcheck disable=SC2046
    run_tool gcc -o "$TEST_TMP/$name-static" "$source/examples/$name.c" $(pkg-config --cflags whimbrel) \
        $(pkg-config --static --libs whimbrel | sed 's/-lwhimbrel/-l:libwhimbrel.a/')
    expect "$name builds with the static library" 0
    run_tool "$TEST_TMP/$name" "$TEST_TMP/none.gguf"
    expect "$name says what is wrong" 1 err "$TEST_TMP/none.gguf"
done
expect_same "the static one stands alone" "$(objdump -p "$TEST_TMP/batch-static" | grep -c libwhimbrel)" 0

model=$("$source/tools/cache-dir" SmolLM2-135M-Instruct.Q4_1.gguf 2>/dev/null)/SmolLM2-135M-Instruct.Q4_1.gguf
if [[ -f $model ]]; then
    for kind in "" -static; do
        run_tool "$TEST_TMP/batch$kind" "$model"
        expect "eight prompts at once$kind" 0 out "The capital of France is" out "tokens]"
        expect_same "each has its answer$kind" "$(grep -c ' tokens\]$' <<<"$out")" 8
    done
    printf 'What is the capital of France?\nAnd of Italy?\n' >"$TEST_TMP/talk"
    run_tool "$TEST_TMP/chat" "$model" <"$TEST_TMP/talk"
    expect "a chat" 0
    if (($(grep -c . <<<"$out") >= 2)); then ok "with two answers"; else bad "with two answers" "$out"; fi
else
    skip "the examples run" "the default model is not there"
fi

run_tool env "${settings[@]}" "$source/tools/install-files" uninstall
expect_same "uninstall leaves nothing" "$(find "$prefix" ! -type d)" ""
finish
