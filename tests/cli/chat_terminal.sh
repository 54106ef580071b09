# SPDX-License-Identifier: Apache-2.0
# whimbrel chat in a real terminal (tmux): what a person types, and what the screen then shows.
given=${TEST_TMP:-}
. "$(dirname "$0")/common.bash"

model=${XDG_CACHE_HOME:-${HOME:-}/.cache}/whimbrel/SmolLM2-135M-Instruct.Q4_1.gguf
if [[ ! -f $model ]]; then
    skip "chat in a terminal" "the default model is not there; make model fetches it"
    finish
fi
if ! command -v tmux >/dev/null; then
    skip "chat in a terminal" "tmux is not there"
    finish
fi

unset TMUX
n_open=0 tmux=(true)
leave()
{
    "${tmux[@]}" kill-server 2>/dev/null
    [[ -n $given ]] || rm -rf "$TEST_TMP"
}
trap leave EXIT
mkdir -p "$TEST_TMP/cache/whimbrel"
program=$(realpath "$WHIMBREL")

# open_chat ARGS...: a chat in a terminal of 80 x 30; its exit status is shown when it ends.
open_chat()
{
    "${tmux[@]}" kill-server 2>/dev/null
    tmux=(tmux -S "$TEST_TMP/tmux$((n_open += 1))" -f /dev/null) # a server that ends may linger
    "${tmux[@]}" new-session -d -s t -x 80 -y 30 \
        "env ${vars:-} LC_ALL=C.UTF-8 XDG_CACHE_HOME='$TEST_TMP/cache' '$program' chat '$model' --temp 0 $*; \
         echo EXIT=\$?; sleep 600"
    if ! wait_for "/help lists"; then
        bad "the chat opens" "$(screen)"
        finish
    fi
}
screen()
{
    "${tmux[@]}" capture-pane -t t -p "$@" 2>/dev/null
}
keys()
{
    "${tmux[@]}" send-keys -t t "$@" 2>/dev/null
}
type_text()
{
    "${tmux[@]}" send-keys -t t -l "$1" 2>/dev/null
}
# wait_for TEXT [SECONDS]: until the screen shows it.
wait_for()
{
    local tries=$((${2:-60} * 10))
    while ((tries-- > 0)); do
        [[ $(screen) == *"$1"* ]] && return 0
        sleep 0.1
    done
    return 1
}
# shows NAME TEXT: the screen does, or will soon.
shows()
{
    if wait_for "$2" "${3:-60}"; then
        ok "$1"
    else
        bad "$1" "the screen lacks \"$2\": $(screen | grep -v '^$' | tail -8)"
    fi
}
# ready: the last line is an empty prompt.
ready()
{
    local tries=900
    while ((tries-- > 0)); do
        [[ $(screen | grep -v '^$' | tail -1) == ">" ]] && return 0
        sleep 0.1
    done
    return 1
}
count_on_screen()
{
    screen | grep -cF -- "$1"
}

open_chat -n 12
shows "the banner tells the sampling" "temperature 0"
ready || bad "a prompt follows" "$(screen)"
type_text "Say hello."
keys Enter
shows "an answer ends with speed and context" "of 8192]"
shows "a cut answer is told" "cut after 12 tokens"
ready || bad "the prompt comes back" "$(screen)"
if screen -e | grep -q $'\033\[2m'; then ok "the line of figures is dim"; else bad "the line of figures is dim" "no such code"; fi

# Editing: letters in the middle, wide characters, backspace over them.
type_text "abde"
keys Left Left
type_text "c"
shows "letters go where the cursor is" "> abcde"
keys C-a C-k
type_text "漢字かな"
keys BSpace BSpace
type_text "ok"
shows "a wide character is deleted whole" "> 漢字ok"
cursor=$("${tmux[@]}" display-message -t t -p '#{cursor_x}')
expect_same "the cursor stands behind the wide characters" "$cursor" 8
keys C-c
shows "Ctrl-C drops the line" "> 漢字ok^C"
ready || bad "and the chat goes on" "$(screen)"

# History.
keys Up
shows "the arrow brings the last message back" $'> Say hello.\n'
sleep 0.2
keys C-c
ready
keys C-c
shows "Ctrl-C at an empty prompt says how to leave" "ends the chat]"
type_text "/system"
keys Enter
shows "and the next line is read" "there is no system message"
ready
keys C-c
sleep 0.3
ready || bad "a line in between forgets the first Ctrl-C" "$(screen)"
type_text "/params min_p 3"
keys Enter
shows "a line in between forgets the first Ctrl-C" "min_p is 3"
ready

# Paste: newlines do not send.
"${tmux[@]}" set-buffer -b p $'line one\nline two\nline three'
"${tmux[@]}" paste-buffer -p -d -b p -t t
shows "pasted lines stand in the line" "line three"
sleep 0.3
expect_same "and are not sent" "$(count_on_screen "of 8192]")" 1
keys C-c
ready
long=$(printf 'row %d of a long paste\n' {1..40})
"${tmux[@]}" set-buffer -b p "$long"
"${tmux[@]}" paste-buffer -p -d -b p -t t
shows "a long paste stands as a mark" "[paste 1: 40 lines"
type_text " How many rows?"
keys Enter
wait_for "of 8192]" && ready
used=$(screen | grep -o 'context [0-9]* of' | tail -1 | grep -o '[0-9]*')
if ((used > 250)); then ok "and is sent whole"; else bad "and is sent whole" "only $used tokens of context"; fi
type_text "/save $TEST_TMP/saved.json"
keys Enter
shows "the conversation is saved" "[saved"
cp "$TEST_TMP/saved.json" "$TEST_TMP/out"
expect_python "with all its lines" "
m = json.loads(text)['messages']
assert [x['role'] for x in m] == ['user', 'assistant', 'user', 'assistant'], m
assert m[2]['content'].count('\n') == 39 and m[2]['content'].endswith('How many rows?'), m"

# Marks that come again, pastes in another order, line ends of two bytes.
# saved: what was asked last, with newlines as /.
saved()
{
    rm -f "$TEST_TMP/saved.json"
    type_text "/save $TEST_TMP/saved.json"
    keys Enter
    local tries=600
    while ((tries-- > 0)) && [[ ! -s $TEST_TMP/saved.json ]]; do
        sleep 0.1
    done
    ready
    python3 -c "import json, sys
print(json.load(open(sys.argv[1]))['messages'][-2]['content'].replace('\\n', '/').replace('\\r', 'CR'))" "$TEST_TMP/saved.json"
}
# paste_text TEXT: with its line ends as they are.
paste_text()
{
    "${tmux[@]}" set-buffer -b p "$1"
    "${tmux[@]}" paste-buffer -p -r -d -b p -t t
}
send()
{
    keys Enter
    sleep 0.5
    ready || bad "an answer comes" "$(screen)"
}
type_text "/clear"
send
paste_text $'a\r\nb\r\nc\r\nd\r\ne\r\nf\r\ng'
shows "a second long paste has another number" "[paste 2: 7 lines"
keys C-a
paste_text $'1\n2\n3\n4\n5\n6\n\n7'
shows "and so has a third" "[paste 3: 8 lines"
send
expect_same "pastes stand where their marks are, with single line ends" "$(saved)" "1/2/3/4/5/6//7a/b/c/d/e/f/g"
keys Up Up
shows "history brings the marks back" "> [paste 3: 8 lines"
type_text "x"
send
expect_same "and they stand for the same text" "$(saved)" "1/2/3/4/5/6//7a/b/c/d/e/f/gx"
paste_text $'k\r\rl\r\rm\r\rn'
send
expect_same "line ends that are all doubled are single" "$(saved)" "k/l/m/n"
paste_text $'k\r\rl\rm'
send
expect_same "a blank line stays" "$(saved)" "k//l/m"

# Lines that go on.
type_text 'first \'
keys Enter
type_text "second"
shows "a backslash goes on" ". second"
keys C-c
ready
type_text '"""'
keys Enter
type_text "a"
keys Enter
type_text 'b"""'
keys Enter
sleep 0.5
wait_for "context" && ready
expect_same "quoted lines are one message" "$(saved)" "a/b"

# Resize: the line is drawn anew in the new width.
keys C-l
type_text "$(printf 'word%d ' {1..14})"
sleep 0.3
"${tmux[@]}" resize-window -t t -x 50 -y 30
sleep 0.5
type_text "END"
shows "typing goes on after a resize" "END"
"${tmux[@]}" resize-window -t t -x 100 -y 30
sleep 0.5
type_text "!"
shows "and after another" "word14 END!"
keys C-c
ready

# Resize with wide characters: at an odd width one of them does not fit behind the prompt's two columns.
# on_screen TEXT: how often the screen holds it, whatever rows it is broken into.
on_screen()
{
    screen | tr -d ' \n' | grep -oF -- "$1" | wc -l
}
# once NAME TEXT PART: the text is there, and its part nowhere else.
once()
{
    local tries=600
    while ((tries-- > 0)) && [[ $(on_screen "$2") != 1 ]]; do
        sleep 0.1
    done
    expect_same "$1" "$(on_screen "$2") $(on_screen "$3")" "1 1"
}
wide=天地玄黄宇宙洪荒日月盈昃辰宿列張寒来暑往秋収冬蔵
"${tmux[@]}" resize-window -t t -x 70 -y 30
sleep 0.3
type_text "$wide"
once "wide characters are typed" "$wide" "天地"
"${tmux[@]}" resize-window -t t -x 31 -y 30
sleep 0.5
once "and drawn once in a narrow terminal" "$wide" "天地"
keys Left Left BSpace
once "and edited there" "天地玄黄宇宙洪荒日月盈昃辰宿列張寒来暑往秋冬蔵" "天地"
"${tmux[@]}" resize-window -t t -x 23 -y 30
sleep 0.5
"${tmux[@]}" resize-window -t t -x 70 -y 30
sleep 0.5
type_text "!"
once "and in a wide one again" ">天地玄黄宇宙洪荒日月盈昃辰宿列張寒来暑往秋!冬蔵" "冬蔵"
above=$(screen -S -100 | tr -d ' \n' | grep -oF 'word13word14END!^C' | wc -l) # some have left the screen
expect_same "and the line above it stays" "$above" 1
keys C-c
ready
"${tmux[@]}" resize-window -t t -x 80 -y 30
sleep 0.3
keys C-d
shows "Ctrl-D ends well" "EXIT=0"

# Ctrl-C in an answer stops the answer only.
open_chat
type_text "Write a very long story about a bird. Count from one to one thousand in words."
keys Enter
sleep 1.5
keys C-c C-c C-c
shows "Ctrl-C stops an answer" "[stopped]"
keys C-c # those that came late
sleep 0.3
type_text "/system"
keys Enter
shows "and not the program" "there is no system message"
ready
type_text "/undo"
keys Enter
shows "/undo takes it back" "[taken back: Write a very long story"
type_text "/hlep"
keys Enter
shows "a mistyped command" "did you mean /help?"
keys Up Up Up Up
shows "history reaches back over commands" "> Write a very long story"
sleep 0.2
keys C-c
ready
keys C-c
sleep 0.3
keys C-c
shows "two Ctrl-C end the chat" "EXIT=0"

# The history of the last program.
open_chat
keys Up Up
shows "history outlives the program" "/undo"
mode=$(stat -c %a "$TEST_TMP/cache/whimbrel/chat_history")
expect_same "and is private" "$mode" 600
"${tmux[@]}" kill-server

# A signal that ends the program leaves the terminal as it was.
# tty_after NAME: what stty says after the program's end is what it said before.
tty_after()
{
    wait_for "EXIT=" || bad "$1" "the program goes on"
    expect_same "$1" "$(stty -a -F "$("${tmux[@]}" display-message -t t -p '#{pane_tty}')" | tail -n +2)" "$tty_before"
}
end_chat()
{
    kill "-$1" "$(pgrep -P "$("${tmux[@]}" display-message -t t -p '#{pane_pid}')" whimbrel)"
}
open_chat
ready
type_text "/quit"
keys Enter
wait_for "EXIT=0"
tty_before=$(stty -a -F "$("${tmux[@]}" display-message -t t -p '#{pane_tty}')" | tail -n +2)
open_chat
ready
end_chat TERM
tty_after "SIGTERM at the prompt"
shows "is told by the exit status" "EXIT=143"
open_chat
type_text "Write a very long story about a bird. Count from one to one thousand in words."
keys Enter
sleep 1.5
end_chat HUP
tty_after "SIGHUP in an answer"
shows "is told by the exit status, too" "EXIT=129"

# A note is cut between characters.
open_chat -n 2
type_text "a天地玄黄宇宙洪荒日月盈昃辰宿列張寒来暑往"
keys Enter
wait_for "of 8192]" && ready
type_text "/undo"
keys Enter
shows "/undo cuts between characters" "[taken back: a天地玄黄宇宙洪荒日月盈昃辰宿列張寒来暑 ...]"

# Complaints of /model are wrapped like answers: "config.json" would cross the last column.
for name in no-such-model-1 no-such-model-of-any-kind; do
    open_chat -n 2
    type_text "/model $name"
    keys Enter
    shows "a wrong name leaves the model" "stays]"
    shows "and its rows end between words ($name)" "config.json"
done

# Reasoning is dim.
printf '%s' '{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}assistant: <think> ' >"$TEST_TMP/think.jinja"
open_chat -n 6 --chat-template "'$TEST_TMP/think.jinja'"
type_text "Hi"
keys Enter
wait_for "of 8192]"
if [[ $(screen -e | grep -A1 '> Hi' | tail -1) == $'\033[2m'* ]]; then ok "reasoning is dim"; else
    bad "reasoning is dim" "$(screen -e | grep -A1 '> Hi' | cat -v)"; fi

# No colour, and a teletype.
vars="NO_COLOR=1" open_chat -n 4
type_text "Hi"
keys Enter
wait_for "of 8192]"
if screen -e | grep -q $'\033\['; then bad "NO_COLOR: no codes" "there are"; else ok "NO_COLOR: no codes"; fi
vars="TERM=dumb" open_chat -n 4
type_text "Hi"
keys Enter
shows "a dumb terminal works" "of 8192]"
if screen -e | grep -q $'\033\['; then bad "and gets no codes" "it does"; else ok "and gets no codes"; fi
finish
