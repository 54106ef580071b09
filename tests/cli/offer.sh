# SPDX-License-Identifier: Apache-2.0
# Which model, where nobody names one: what `serve` offers on a terminal (tmux) and what `auto` takes. The hub is one on
# loopback; it has the default model's file under the names of all others, because a server needs a whole one.
given=${TEST_TMP:-}
. "$(dirname "$0")/common.bash"

model=${XDG_CACHE_HOME:-${HOME:-}/.cache}/whimbrel/SmolLM2-135M-Instruct.Q4_1.gguf
if [[ ! -f $model ]]; then
    skip "the offer" "the default model is not there; make model fetches it"
    finish
fi
if ! command -v tmux >/dev/null; then
    skip "the offer" "tmux is not there"
    finish
fi

unset TMUX CI
n_open=0 tmux=(true)
leave()
{
    "${tmux[@]}" kill-server 2>/dev/null
    [[ -z ${hub:-} ]] || kill "$hub" 2>/dev/null
    [[ -n $given ]] || rm -rf "$TEST_TMP"
}
trap leave EXIT
program=$(realpath "$WHIMBREL")
mkdir -p "$TEST_TMP/own"
ln -s "$model" "$TEST_TMP/own/"
python3 - "$cli/../hub" "$model" "$cli/../../apps/local/models.def" >"$TEST_TMP/url" <<'PY' &
import re, sys, time
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
from fakehub import Hub, Repo
data = open(sys.argv[2], "rb").read()
with open(sys.argv[3]) as models:
    rows = re.findall(r'^WHIM_MODEL\("[^"]*", "([^"]*)", "([^"]*)"', models.read(), re.M)
repos = [Repo(name, {f"{name.split('/')[1].removesuffix('-GGUF')}-{pick}.gguf": data}) for name, pick in rows]
with Hub(*repos) as hub:
    print(hub.url, flush=True)
    time.sleep(1200)
PY
hub=$!
for _ in $(seq 100); do
    [[ -s $TEST_TMP/url ]] && break
    sleep 0.1
done
url=$(<"$TEST_TMP/url")

# open_whimbrel NAME ARGS...: the program in a terminal, with a hub's cache of its own; its exit status is shown when it ends.
open_whimbrel()
{
    "${tmux[@]}" kill-server 2>/dev/null
    tmux=(tmux -S "$TEST_TMP/tmux$((n_open += 1))" -f /dev/null)
    mkdir -p "$TEST_TMP/$1"
    "${tmux[@]}" new-session -d -s t -x 130 -y 50 \
        "trap : INT; env ${vars:-} LC_ALL=C.UTF-8 no_proxy='*' WHIMBREL_CACHE='${cache:-$TEST_TMP/own}' HF_HUB_CACHE='$TEST_TMP/$1' \
         HF_ENDPOINT=${endpoint-$url} '$program' ${*:2}; echo EXIT=\$?; sleep 600"
}
open_serve()
{
    open_whimbrel "$1" serve --port 0 "${@:2}"
}
screen()
{
    "${tmux[@]}" capture-pane -t t -p 2>/dev/null
}
keys()
{
    "${tmux[@]}" send-keys -t t "$@" 2>/dev/null
}
# shows NAME TEXT...: in the end the screen shows each text.
shows()
{
    local name=$1 text
    shift
    for text in "$@"; do
        local tries=1200
        until [[ $(screen) == *"$text"* ]]; do
            if ((tries-- == 0)); then
                bad "$name" "the screen lacks \"$text\": $(screen | grep -v '^$' | tail -12)"
                return 1
            fi
            sleep 0.1
        done
    done
    ok "$name"
}

open_serve one
shows "what fits is listed, with size and speed" "These fit this machine" "  1  the default" "qwen3:0.6b" "0.6 GB to fetch" \
    "tokens/s" "waiting 60 s:"
keys Enter
shows "Enter takes the default model" "ready: http" "model     SmolLM2-135M-Instruct" "135M parameters: a demo"
keys C-c
shows "it ends" "EXIT=0"

open_serve two
shows "again" "waiting 60 s:"
keys 99 Enter
shows "a wrong number is asked for again" "there are 1 to"
keys "qwen3:3b" Enter
shows "so is a wrong name, with those near it" "similar names: qwen3:0.6b"
keys 2 Enter
shows "a number is fetched and served" "Qwen/Qwen3-0.6B-GGUF at" "ready: http" "model     Qwen/Qwen3-0.6B-GGUF"
keys C-c
shows "it ends, too" "EXIT=0"

vars="CI=" open_serve two
shows "one in the cache is said to be there" "in the cache" "waiting 60 s:"
keys C-c
shows "Ctrl-C ends the question" "EXIT=130"
endpoint=http://127.0.0.1:9 open_serve two
shows "without a hub what is in the cache is offered" "qwen3:0.6b" "waiting 60 s:"
[[ $(screen) == *"to fetch"* ]] && bad "and nothing else" "$(screen)" || ok "and nothing else"
endpoint=http://127.0.0.1:9 open_serve none
shows "with neither nobody is asked" "ready: http"
[[ $(screen) == *"No MODEL"* ]] && bad "not asked" "$(screen)" || ok "not asked"

open_serve one --ask-time 1
shows "nobody answers" "nobody answered: the default model" "ready: http"
vars="CI=true" open_serve one
shows "a test machine is not asked" "ready: http"
[[ $(screen) == *"No MODEL"* ]] && bad "CI: not asked" "$(screen)" || ok "CI: not asked"

# Neither the default model nor what fetches it: the first of the others takes its place.
cache=$TEST_TMP/empty open_serve two
shows "without the default model it is not offered" "  1  qwen3:0.6b" "Enter takes qwen3:0.6b"
[[ $(screen) == *"the default"* ]] && bad "not at all" "$(screen)" || ok "not at all"
keys Enter
shows "Enter takes the first" "ready: http" "model     Qwen/Qwen3-0.6B-GGUF"
cache=$TEST_TMP/empty open_serve two --ask-time 1
shows "so does waiting" "nobody answered: qwen3:0.6b" "ready: http" "model     Qwen/Qwen3-0.6B-GGUF"
cache=$TEST_TMP/empty endpoint=http://127.0.0.1:9 open_serve none
shows "with nothing at all it says what to do" "whimbrel run qwen3:0.6b" "make model" "EXIT=1"
# An installed program has the tool.
mkdir -p "$TEST_TMP/place/bin" "$TEST_TMP/place/lib/whimbrel/tools"
cp "$program" "$TEST_TMP/place/bin/"
printf '#!/bin/sh\n[ $# = 0 ] || exit 0 # it can\nmkdir -p "$WHIMBREL_CACHE" && ln -s "%s" "$WHIMBREL_CACHE/"\n' "$model" \
    >"$TEST_TMP/place/lib/whimbrel/tools/fetch-default-model"
chmod 755 "$TEST_TMP/place/lib/whimbrel/tools/fetch-default-model"
built=$program program=$TEST_TMP/place/bin/${program##*/}
cache=$TEST_TMP/empty open_serve two
shows "an installed one offers the default model" "  1  the default" "0.1 GB to fetch" "waiting 60 s:"
keys Enter
shows "and fetches it" "ready: http" "135M parameters: a demo; for real work: whimbrel serve auto"
program=$built

# In the background a read would stop it for ever.
open_serve one --ask-time 0
shows "not asked with --ask-time 0" "ready: http"

# Without a terminal: never, though a hub is in reach.
export WHIMBREL_CACHE=$TEST_TMP/own HF_ENDPOINT=$url no_proxy='*' HF_HUB_CACHE=$TEST_TMP/three
"$program" serve --port 0 </dev/null >"$TEST_TMP/piped.log" 2>&1 &
piped=$!
for _ in $(seq 3000); do
    grep -q "135M parameters: a demo" "$TEST_TMP/piped.log" && break
    kill -0 $piped 2>/dev/null || break
    sleep 0.1
done
rc=0 out=$(<"$TEST_TMP/piped.log")
expect "serve without a terminal takes the default model" 0 out "ready: http" out "model     SmolLM2-135M-Instruct"
[[ $out == *"No MODEL"* ]] && bad "and does not ask" "$out" || ok "and does not ask"
kill $piped
wait $piped
run_it run auto "Say hi." -n 4 --temp 0 # which one depends on the machine
expect "auto fetches what fits best" 0 err "auto: qwen3" err "GB to fetch" err "tokens/s"
best=$(sed -n 's/^auto: [^ ]* (\([^:]*\):.*/\1/p' <<<"$err" | head -1)
expect_same "what it named is in the cache now" "$(ls "$HF_HUB_CACHE" | grep ^models)" "models--${best/\//--}"
HF_ENDPOINT=http://127.0.0.1:9 HF_HUB_CACHE=$TEST_TMP/two run_it run auto "Say hi." -n 4 --temp 0
expect "auto takes what is in the cache" 0 err "auto: qwen3:0.6b (Qwen/Qwen3-0.6B-GGUF:Q8_0), in the cache"
HF_ENDPOINT=http://127.0.0.1:9 HF_HUB_CACHE=$TEST_TMP/none run_it run auto "Say hi." -n 4 --temp 0
expect "auto without a hub" 0 err "auto: the default model, because no hub answers"

# A server that runs is joined by whoever asks for its model, whatever he calls it, and its model is not deleted.
export HF_ENDPOINT=http://127.0.0.1:9 HF_HUB_CACHE=$TEST_TMP/two
"$program" serve qwen3:0.6b --port 0 -q 2>"$TEST_TMP/serve.log" &
served=$!
for _ in $(seq 3000); do
    "$program" ps | grep -q "^$served  *Qwen.* ready " && break
    sleep 0.1
done
for name in qwen3:0.6b Qwen/Qwen3-0.6B-GGUF:Q8_0 auto; do
    open_whimbrel two chat "$name"
    shows "chat $name joins its server" "joined the server at http://127.0.0.1:"
done
open_whimbrel two rm qwen3:0.6b
shows "what is served is not deleted" "is in use by the server at http://127.0.0.1:" "EXIT=1"
kill $served
wait $served
open_whimbrel two rm qwen3:0.6b
shows "rm says what would go, and asks" "Qwen/Qwen3-0.6B-GGUF:Q8_0" "delete this," "[y/N]"
keys Enter
shows "Enter is no" "nothing was deleted" "EXIT=1"
open_whimbrel two rm qwen3:0.6b
shows "asked again" "[y/N]"
keys C-c
shows "Ctrl-C is no, too" "EXIT=130"
run_it list
expect "all is there" 0 out "qwen3:0.6b"
open_whimbrel two rm qwen3:0.6b
shows "asked once more" "[y/N]"
keys y Enter
shows "y deletes it" "deleted qwen3:0.6b;" "are free again" "EXIT=0"
run_it list
[[ $rc == 0 && $out != *Qwen3* ]] && ok "and it is gone" || bad "and it is gone" "$out"

# Windows were closed while servers asked and while they ran.
"${tmux[@]}" kill-server 2>/dev/null
left_over()
{
    local process
    for process in /proc/[0-9]*; do
        [[ $(<"$process/comm") == whimbrel ]] && grep -qzs "^HF_HUB_CACHE=$TEST_TMP/" "$process/environ" && echo "${process#/proc/}"
    done 2>/dev/null
}
tries=600
while [[ -n $(left_over) ]] && ((tries-- > 0)); do
    sleep 0.1
done
expect_same "no server goes on behind a closed window" "$(left_over)" ""
finish
