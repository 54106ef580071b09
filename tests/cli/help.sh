# SPDX-License-Identifier: Apache-2.0
# Help, version, and what is said to those who type something else.
. "$(dirname "$0")/common.bash"

commands="run inspect doctor bench quantize" # chat has no --json; chat.sh looks at it
run_it --help
expect "help lists chat, run and doctor" 0 out "chat [MODEL]" out "run [MODEL]" out doctor
run_it
expect "no command is usage" 2 out "COMMAND"
run_it --version
expect "version" 0 out "whimbrel "
for c in $commands; do
    run_it "$c" --help
    expect "$c --help" 0 out "whimbrel $c" out "--threads" out "--json" out "(default: "
    run_it "$c" --version
    expect "$c --version" 0 out "whimbrel "
    run_it "$c" --frobnicate
    expect "$c refuses an unknown option" 2 err "--frobnicate" err "$c --help"
    run_it "$c" --thread 2
    expect "$c names the nearest option" 2 err "--threads?"
    run_it "$c" --threads many
    expect "$c refuses a bad value" 2 err "--threads" err '"many"' err "whole number"
    run_it "$c" --threads
    expect "$c refuses a missing value" 2 err "--threads" err "needs a value"
done
if awk 'length > 80 { exit 1 }' <("$WHIMBREL" run --help); then
    ok "help is wrapped to 80 columns"
else
    bad "help is wrapped to 80 columns" "a line is longer"
fi

run_it rnu
expect "unknown command, nearest name" 2 err '"rnu"' err "mean run?"
run_it train
expect "a command that there is not" 2 err '"train"'
run_it inspect a b
expect "two models" 2 err '"a" and "b"'
run_it doctor something
expect "doctor takes no operand" 2 err "something"
run_it kv export a b c
expect "kv takes three operands" 2 err 'takes export|import FILE [MODEL], but got "c"'
run_it kv carry a
expect "kv knows two words" 2 err "kv export FILE [MODEL], or whimbrel kv import FILE [MODEL]"
run_it kv import
expect "kv wants a file" 2 err "whimbrel kv import FILE [MODEL]"
run_it kv export "$TEST_TMP/none.kvx" --no-kv-dir
expect "kv wants a folder" 1 err "give --kv-dir FOLDER"
run_it run --load-format gguf
expect "a choice lists its words" 2 err "auto|dummy"
run_it run --tensors
expect "an option of another command" 2 err '"inspect"'
run_it bench -b 1,0
expect "a list is checked number by number" 2 err "--batch" err '"1,0"'
"$WHIMBREL" run --help >/dev/full 2>"$TEST_TMP/err"
rc=$? err=$(<"$TEST_TMP/err") out=
expect "a full disk is an error" 1 err "standard output"
finish
