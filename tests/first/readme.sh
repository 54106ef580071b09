#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# README.md word by word: runs its indented commands from "Start" to "Compare" as they stand and in their order, in this folder.
# A command that serves is left to run until the next one that serves; `make test` is left out, because it takes half an hour.
# tests/first/bare-root.sh calls it in bare systems, as root. READY_S: seconds that a start may take (3600).
set -u
cd "$(dirname "$0")/../.." || exit 1
: "${READY_S:=3600}"
work=$(mktemp -d)
served=
passed=0 failed=0

ok() { echo "ok $1"; ((passed += 1)); }
bad() { echo "FAIL $1"; tail -5 "$work/said" | sed 's/^/    | /'; ((failed += 1)); }

stop()
{
    [[ -n $served ]] || return 0
    kill -INT -- "-$served" 2>/dev/null
    wait "$served"
    served=
}
trap 'stop; rm -rf "$work"' EXIT

# start COMMAND: until it is ready.
start()
{
    stop
    set -m
    bash -c "$1" >"$work/said" 2>&1 </dev/null &
    served=$!
    set +m
    for ((i = 0; i < READY_S; i++)); do
        grep -q "^ready: " "$work/said" && return
        kill -0 "$served" 2>/dev/null || return 1
        sleep 1
    done
    return 1
}

# commands: each line of README between the two headings that is indented by four, without what is said about it.
commands()
{
    sed -n '/^## Start/,/^## Compare/{s/^    \([^ ].*\)$/\1/p}' README.md | sed 's/  *# .*$//'
}

mapfile -t lines < <(commands)
for line in "${lines[@]}"; do
    case $line in
        "make test") continue ;;
        "make serve"*) start "$line" && ok "$line" || bad "$line" ;;
        *)
            # A conversation gets a line to answer.
            if bash -c "$line" >"$work/said" 2>&1 <<<"Name a bird." && [[ -s $work/said || $line == *">"* ]] &&
                ! grep -q '"error"' "$work/said"; then
                ok "$line"
            else
                bad "$line"
            fi ;;
    esac
done
# The last server asks for the key that was made for it.
ask=(curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:8080/v1/models)
[[ $("${ask[@]}") == 401 && $("${ask[@]}" -H "Authorization: Bearer $(cat keys.txt)") == 200 ]] && ok "the key is asked for" ||
    bad "the key is asked for"
[[ ${#lines[@]} -ge 8 ]] && ok "README's commands are read" || bad "README's commands are read (${#lines[@]})"
rm -f keys.txt
echo "RESULT passed=$passed failed=$failed skipped=0"
exit $((failed > 0))
