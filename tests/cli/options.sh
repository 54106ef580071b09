# SPDX-License-Identifier: Apache-2.0
# What is made from the option table: docs/options.md, the man page, and completion for shells.
. "$(dirname "$0")/common.bash"

if said=$("$cli/../../tools/check-options" "$WHIMBREL" 2>&1); then
    ok "every option is in the documentation, and the other way round"
else
    bad "every option is in the documentation, and the other way round" "$(tail -5 <<<"$said")"
fi

run_it help serve
expect "help COMMAND" 0 out "whimbrel serve" out "--port"
run_it help rnu
expect "help of what is no command" 2 err "mean run?"

run_it help --man
expect "man page" 0 out ".TH WHIMBREL 1" out '\fB\-\-port\fR \fIN\fR' out ".SH \"EXIT STATUS\""
if command -v groff >/dev/null; then
    warnings=$(groff -man -Tutf8 -ww -z "$TEST_TMP/out" 2>&1)
    expect_same "groff has nothing to say about it" "$warnings" ""
else
    skip "groff has nothing to say about it" "there is no groff"
fi

# complete WORD...: what bash offers for the last word.
complete_words()
{
    bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _whimbrel; printf "%s " "${COMPREPLY[@]}"' \
        - "$TEST_TMP/bash" "$@"
}
"$WHIMBREL" help --bash >"$TEST_TMP/bash"
expect_same "bash: a command" "$(complete_words whimbrel ser)" "serve "
expect_same "bash: options of the command" "$(complete_words whimbrel serve --log-)" "--log-level --log-format --log-content "
expect_same "bash: not those of another" "$(complete_words whimbrel doctor --log-)" " "
expect_same "bash: the words of a choice" "$(complete_words whimbrel serve --log-format "")" "text json "
touch "$TEST_TMP/model.gguf"
expect_same "bash: a model" "$(complete_words whimbrel run "$TEST_TMP/mod")" "$TEST_TMP/model.gguf "
expect_same "bash: nothing for a number" "$(complete_words whimbrel serve --port "")" " "

"$WHIMBREL" help --zsh >"$TEST_TMP/_whimbrel"
if command -v zsh >/dev/null; then
    expect_same "zsh reads its completion" "$(zsh -f -n "$TEST_TMP/_whimbrel" 2>&1)" ""
else
    skip "zsh reads its completion" "there is no zsh"
fi
"$WHIMBREL" help --fish >"$TEST_TMP/fish"
if command -v fish >/dev/null; then
    offered=$(HOME=$TEST_TMP fish --no-config -c "source '$TEST_TMP/fish'; complete -C 'whimbrel serve --log-f'" 2>&1)
    expect_same "fish: options of the command" "${offered%%$'\t'*}" "--log-format"
else
    skip "fish: options of the command" "there is no fish"
fi
finish
