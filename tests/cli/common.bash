# SPDX-License-Identifier: Apache-2.0
# What the scripts of this folder share; they source it. $WHIMBREL is the program, $TEST_TMP an empty
# folder (one is made when it is not given). Every check prints `ok NAME` or `FAIL NAME: why`.
set -u
export WHIMBREL_KV_DIR= # nothing is kept over a restart, unless a test says where
cli=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
data=$cli/../data/golden
: "${WHIMBREL:=$cli/../../build/whimbrel}"
if [[ -z ${TEST_TMP:-} ]]; then
    TEST_TMP=$(mktemp -d)
    trap 'rm -rf "$TEST_TMP"' EXIT
fi
passed=0 failed=0 skipped=0

ok()
{
    echo "ok $1"
    ((passed += 1))
}
bad()
{
    echo "FAIL $1: $2"
    ((failed += 1))
}
skip()
{
    echo "skip $1: $2"
    ((skipped += 1))
}

# run_it ARGS...: sets rc, out (standard output) and err (standard error).
run_it()
{
    "$WHIMBREL" "$@" >"$TEST_TMP/out" 2>"$TEST_TMP/err"
    rc=$?
    out=$(<"$TEST_TMP/out")
    err=$(<"$TEST_TMP/err")
}

# expect NAME RC [STREAM TEXT]...: the last run ended so, and out or err hold each text.
expect()
{
    local name=$1 want=$2
    shift 2
    if ((rc != want)); then
        bad "$name" "exit status $rc, expected $want; it said: ${err:0:300}"
        return
    fi
    while (($# > 0)); do
        if [[ ${!1} != *"$2"* ]]; then
            bad "$name" "standard $1 lacks \"$2\": ${!1:0:300}"
            return
        fi
        shift 2
    done
    ok "$name"
}

# expect_same NAME GOT WANTED
expect_same()
{
    if [[ $2 == "$3" ]]; then
        ok "$1"
    else
        bad "$1" "got \"${2:0:200}\", expected \"${3:0:200}\""
    fi
}

# expect_python NAME CODE: Python finds the assertions true; `text` is what the last run printed.
expect_python()
{
    local why
    if why=$(python3 -c "import json, math, sys
text = open(sys.argv[1]).read()
$2" "$TEST_TMP/out" 2>&1); then
        ok "$1"
    else
        bad "$1" "$(tail -2 <<<"$why" | tr '\n' ' ' | cut -c1-400)"
    fi
}

# prompt FOLDER I FIELD: the I-th prompt's "tokens" or "greedy" ids of a folder's golden.json.
prompt()
{
    python3 -c 'import json, sys
print(*json.load(open(sys.argv[1]))["prompts"][int(sys.argv[2])][sys.argv[3]])' \
        "$data/$1/golden.json" "$2" "$3"
}

finish()
{
    echo "RESULT passed=$passed failed=$failed skipped=$skipped"
    exit $((failed > 0))
}
