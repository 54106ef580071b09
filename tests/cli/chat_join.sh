# SPDX-License-Identifier: Apache-2.0
# whimbrel chat with a server that runs: through pipes, and on a terminal (tmux), where rows, styles and Ctrl-C are looked at.
given=${TEST_TMP:-}
. "$(dirname "$0")/common.bash"

unset TMUX WHIMBREL_API_KEY
export WHIMBREL_CACHE=$TEST_TMP/cache # no server of anybody else's
mkdir -p "$WHIMBREL_CACHE"
n_open=0 tmux=(true) servers=()
leave()
{
    "${tmux[@]}" kill-server 2>/dev/null
    kill "${servers[@]}" 2>/dev/null
    [[ -n $given ]] || rm -rf "$TEST_TMP"
}
trap leave EXIT
program=$(realpath "$WHIMBREL")

# fake LOG [KEY]: start the scripted server; sets port.
fake()
{
    python3 "$cli/chat_server.py" "$@" >"$TEST_TMP/port" &
    servers+=($!)
    for ((i = 0; i < 600; i++)); do
        [[ -s $TEST_TMP/port ]] && break
        sleep 0.1
    done
    port=$(<"$TEST_TMP/port")
    : >"$TEST_TMP/port"
}
# talk ARGS...: lines on standard input.
talk()
{
    "$program" chat -q "$@" >"$TEST_TMP/out" 2>"$TEST_TMP/err"
    rc=$?
    out=$(<"$TEST_TMP/out")
    err=$(<"$TEST_TMP/err")
}
# sent CODE: what the scripted server was sent last makes this true.
sent()
{
    tail -1 "$TEST_TMP/log" >"$TEST_TMP/out"
    expect_python "$1" "r = json.loads(text); b = r['body']
$2"
}

fake "$TEST_TMP/log"
url=http://127.0.0.1:$port
talk --url "$url" --temp 0.5 --top-k 7 -s "Be brief." --stop END --seed 9007199254740993 -n 50 --logit-bias 5=-1 <<<"hello"
expect_same "an answer through a pipe is the text and no more" "$out" "first heard hello"
sent "the request says what the options say" "
assert r['path'] == '/v1/chat/completions' and r['key'] is None, r
assert b['model'] == 'first' and b['stream'] and b['max_tokens'] == 50 and b['stop'] == ['END'], b
assert b['temperature'] == 0.5 and b['top_k'] == 7 and b['seed'] == 9007199254740993 and b['logit_bias'] == {'5': -1.0}, b
assert [m['content'] for m in b['messages']] == ['Be brief.', 'hello'], b
assert 'top_p' not in b and 'min_p' not in b, b"
talk --url "$url" second <<<"hello"
expect_same "MODEL names a model of the server" "$out" "second heard hello"
talk --url "$url" <<EOF
think
/params temperature 0.25
/params
/model second
again
/save $TEST_TMP/saved.json
EOF
expect "a conversation" 0 out "temperature 0.25, the rest as the server has it" out "second heard again"
sent "goes whole to the server, with its reasoning" "
assert [m['content'] for m in b['messages']] == ['think', 'first heard think', 'again'], b
assert b['messages'][1]['reasoning_content'] == 'hm ' and b['temperature'] == 0.25 and b['model'] == 'second', b"
talk --url "$url" <<<$'hello\n/model third'
expect "a model that is nowhere" 0 err "there is no model \"third\""
talk --url "$url" <<<$'full\n/save '"$TEST_TMP/full.json"
expect "a refusal is told" 1 err "HTTP status 400: the prompt has 5000 tokens" err "as before"
cp "$TEST_TMP/full.json" "$TEST_TMP/out"
expect_python "and nothing is kept of it" "assert json.loads(text)['messages'] == [], text"
talk --url "$url" <<<"cut"
expect "a server that goes away" 1 err "cut off before the end"
talk --url "$url" <<<"long"
expect "an answer that the server ended" 0 err "the answer ends here"
printf '{"type":"object"}' >"$TEST_TMP/schema.json"
talk --url "$url" --json-schema "$TEST_TMP/schema.json" <<<"form"
sent "a schema goes along" "assert b['response_format']['json_schema']['schema'] == {'type': 'object'}, b"
talk --url "$url" --ctx 512 <<<"hello"
expect "options about loading have no place" 1 err "--ctx is about a model that is loaded here"
talk --url "http://127.0.0.1:1" <<<"hello"
expect "nobody there" 1 err "no connection to 127.0.0.1:1"
talk --url "$url/nothing/../?" <<<"hello"
expect "no URL" 1 err "--url"

fake "$TEST_TMP/log" secret
locked=http://127.0.0.1:$port
talk --url "$locked" <<<"hello"
expect "a key is missing" 1 err "wants a key: set WHIMBREL_API_KEY"
WHIMBREL_API_KEY=wrong talk --url "$locked" <<<"hello"
expect "a wrong key" 1 err "and not this one"
WHIMBREL_API_KEY=secret talk --url "$locked" <<<"hello"
expect_same "the key of the environment" "$out" "first heard hello"
printf '# ours\nsecret\n' >"$TEST_TMP/keys"
talk --url "$locked" --api-key-file "$TEST_TMP/keys" <<<"hello"
expect_same "the key of a file" "$out" "first heard hello"

# --- a terminal -------------------------------------------------------------------------------------------------------
if ! command -v tmux >/dev/null; then
    skip "a joined chat in a terminal" "tmux is not there"
    finish
fi
# open_chat WIDTH ARGS...
open_chat()
{
    local width=$1
    shift
    "${tmux[@]}" kill-server 2>/dev/null
    tmux=(tmux -S "$TEST_TMP/tmux$((n_open += 1))" -f /dev/null)
    "${tmux[@]}" new-session -d -s t -x "$width" -y 40 \
        "env ${vars:-} WHIMBREL_CACHE='$WHIMBREL_CACHE' LC_ALL=C.UTF-8 '$program' chat $*; echo EXIT=\$?; sleep 600"
    wait_for "/help lists" || bad "the chat opens" "$(screen)"
}
screen()
{
    "${tmux[@]}" capture-pane -t t -p "$@" 2>/dev/null
}
wait_for()
{
    local tries=$((${2:-60} * 10))
    while ((tries-- > 0)); do
        [[ $(screen) == *"$1"* ]] && return 0
        sleep 0.1
    done
    return 1
}
shows()
{
    if wait_for "$2"; then ok "$1"; else bad "$1" "the screen lacks \"$2\": $(screen | grep -v '^$' | tail -8)"; fi
}
send()
{
    "${tmux[@]}" send-keys -t t -l "$1"
    "${tmux[@]}" send-keys -t t Enter
}
# ask TEXT: on an empty screen, to the answer's end.
ask()
{
    "${tmux[@]}" send-keys -t t C-l
    sleep 0.3
    send "$1"
    wait_for "[5 tokens" || bad "$1 is answered" "$(screen | grep -v '^$' | tail -5)"
}
# rows: of the answer that is on the screen.
rows()
{
    screen | sed -e '0,/> [a-z]*$/d' -e '/\[5 tokens/,$d'
}

open_chat 60 --url "$url"
shows "it says what was joined" "joined the server at $url, which has"$'\n'"first; --no-join loads a model here"
ask wrap
expect_same "rows end between words" "$(rows | head -2)" \
    $'The curvature of spacetime tells matter how to move, and\nmatter tells spacetime how it has to curve. The curvature of'
expect_same "and no word is broken or lost" "$(rows | tr '\n' ' ' | sed 's/ *$//')" \
    "$(printf 'The curvature of spacetime tells matter how to move, and matter tells spacetime how it has to curve. %.0s' 1 2 3 |
        sed 's/ *$//')"
ask wide
expect_same "wide characters fill rows" "$(rows | head -1)" "天地玄黄宇宙洪荒日月盈昃辰宿列張寒来暑往秋収冬蔵閏余成歳律呂"
ask marks
expect_same "marks stay, items hang, code is as it was" "$(rows)" "# A heading
some **bold words** and *slanted ones*, 2 ** 3, \`code\` here
- an item that is long enough to need a second row, which
  hangs below the first one

\`\`\`c
int a = 1; /* a line of code that is much longer than the te
rminal is wide, and is not broken between words */
\`\`\`
end"
styled=$(screen -e | cat -v | sed 's/\^\[\[[34]9m//g; s/\[0;/[/g')
for want in '^[[1m# A heading' '^[[1mbold words' '^[[3mslanted ones' '^[[36m`code`' '^[[36mint a =' '2 ** 3'; do
    if [[ $styled == *"$want"* ]]; then ok "styled: $want"; else bad "styled: $want" "${styled:0:400}"; fi
done

# Resized in the middle of an answer, which goes on in the new width.
send stop
wait_for "word word"
"${tmux[@]}" resize-window -t t -x 33 -y 40
sleep 2
"${tmux[@]}" send-keys -t t C-c
shows "Ctrl-C stops the answer" "[stopped]"
expect_same "after a resize rows end between words in the new width" \
    "$(screen | grep -B3 '^\[stopped' | head -1)" "word word word word word word"
for ((i = 0; i < 600; i++)); do
    grep -q "the client left" "$TEST_TMP/log" && break
    sleep 0.1
done
sent "and the server hears of it" "assert b == 'the client left', r"

vars="NO_COLOR=1" open_chat 60 --url "$url"
ask marks
if screen -e | grep -q $'\033\['; then bad "NO_COLOR: rows without styles" "there are"; else ok "NO_COLOR: rows without styles"; fi
expect_same "and items hang" "$(rows | sed -n 4p)" "  hangs below the first one"
vars="TERM=dumb" open_chat 60 --url "$url"
send marks
wait_for "[5 tokens"
expect_same "a dumb terminal gets the text as it is" "$(screen | grep -A1 '^- an item')" \
    "- an item that is long enough to need a second row, which ha
ngs below the first one"

# --- a server of ours that runs -----------------------------------------------------------------------------------------
model=${XDG_CACHE_HOME:-${HOME:-}/.cache}/whimbrel/SmolLM2-135M-Instruct.Q4_1.gguf
if [[ ! -f $model ]]; then
    skip "joining what ps shows" "the default model is not there; make model fetches it"
    finish
fi
"$program" serve "$model" --port 0 --log-format json >"$TEST_TMP/serve.log" 2>&1 &
servers+=($!)
for ((i = 0; i < 300; i++)); do
    "$program" ps | grep -q ' ready ' && break
    sleep 0.2
done
# ps_field NAME: of the first server that ps shows.
ps_field()
{
    "$program" ps --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0][sys.argv[1]])' "$1"
}
ours=$(ps_field url) name=$(ps_field model)
talk "$model" --temp 0 -n 16 <<<"Name a bird."
expect "a pipe loads its own" 0
own=$out
expect_same "and asks no server" "$(ps_field running) $(grep -c '"/v1' "$TEST_TMP/serve.log")" "0 0"
talk --url "$ours" --temp 0 -n 16 <<<"Name a bird."
expect_same "a server gives the same answer" "$out" "$own"
open_chat 100 --temp 0 -n 16
shows "a terminal joins the server that runs" "joined the server at $ours, which has $name"
open_chat 100 "'$model'" --temp 0 -n 16
shows "also where MODEL says its path" "joined the server at $ours"
send "Name a bird."
shows "and is answered" "of 8192]"
send "/model $model"
shows "/model loads a model here in place of the server" "sampling: temperature 0"
send "What did I ask?"
wait_for "cut after 16"
sleep 0.5
send "/save $TEST_TMP/moved.json"
shows "and the conversation stays" "[saved 4 messages"
send "/model $data/llama-f32"
shows "a model that cannot chat is refused, and the old one stays" ".gguf stays]"
send "/model"
shows "/model shows it" ".gguf ("
open_chat 100 "'$model'" --no-join -n 4
shows "--no-join loads a model" ".gguf: context"
open_chat 100 --ctx 512 "'$model'" -n 4
shows "and so does an option about loading" ".gguf: context 512"

# Beside it one with TLS, which is newer: nobody knows whether its certificate is good, so it is not joined by itself.
if command -v openssl >/dev/null &&
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -days 2 \
        -keyout "$TEST_TMP/tls.key" -out "$TEST_TMP/tls.pem" 2>/dev/null &&
    "$program" serve --help | grep -q -- --tls-cert; then
    sleep 1.1 # the start is told in seconds
    "$program" serve "$model" --port 0 --log-format json --tls-cert "$TEST_TMP/tls.pem" --tls-key "$TEST_TMP/tls.key" \
        >"$TEST_TMP/tls.log" 2>&1 &
    servers+=($!)
    for ((i = 0; i < 600; i++)); do
        grep -q '"event":"ready"' "$TEST_TMP/tls.log" && break
        sleep 0.2
    done
    case $(ps_field url) in
        https://*)
            open_chat 100 -n 4
            shows "beside a newer server with TLS the other one is joined" "joined the server at $ours, which has $name"
            kill "${servers[-2]}"
            wait "${servers[-2]}"
            open_chat 100 "'$model'" -n 4
            shows "one with TLS alone is not joined" ".gguf: context" ;;
        *) bad "a server with TLS is told first" "$(tail -2 "$TEST_TMP/tls.log")" ;;
    esac
else
    skip "joining beside a server with TLS" "there is no openssl"
fi
finish
