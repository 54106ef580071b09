# SPDX-License-Identifier: Apache-2.0
# whimbrel ps: servers that run, one that was killed, what others left in the folder.
. "$(dirname "$0")/common.bash"

export WHIMBREL_CACHE=$TEST_TMP/cache
mkdir -p "$WHIMBREL_CACHE"
pids=()
leave()
{
    ((${#pids[@]} == 0)) || kill -9 "${pids[@]}" 2>/dev/null
    wait 2>/dev/null
}
trap leave EXIT

# start_server NAME: a server of a tiny model on a port of the system's choice; sets pid.
cp -r "$data/llama-f32" "$TEST_TMP/model"
cp "$data"/../letters/* "$TEST_TMP/model/"
start_server()
{
    "$WHIMBREL" serve "$TEST_TMP/model" --port 0 --served-model-name "$1" --threads 1 -q 2>"$TEST_TMP/$1.log" &
    pid=$!
    pids+=($pid)
    for _ in $(seq 600); do
        "$WHIMBREL" ps | grep -q "$1 .* ready " && return
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    bad "the server $1 is ready" "$(tail -3 "$TEST_TMP/$1.log")"
}

run_it ps
expect "nothing runs" 0 out "no server"
run_it ps --json
expect_same "nothing runs, as JSON" "$out" "[]"

start_server first
one=$pid
sleep 1.1 # the start is told in seconds
start_server second
two=$pid
run_it ps --json
expect_python "both are told, the newest first" "
rows = json.loads(text)
assert [r['pid'] for r in rows] == [$two, $one], rows
assert [r['model'] for r in rows] == ['second', 'first'], rows
for r in rows:
    assert r['state'] == 'ready' and r['url'].startswith('http://127.0.0.1:'), r
    assert r['path'].endswith('/model') and r['resident_bytes'] > 1 << 20, r
    assert not r['needs_key'] and r['requests_total'] > 0 and r['running'] == 0, r"

# clients_are N: in the end the table and the JSON say that the second server has so many.
clients_are()
{
    local tries=300 table json
    for (( ; tries > 0; tries--)); do
        table=$("$WHIMBREL" ps | awk '$2 == "second" { match($0, / [0-9]+ +[0-9]+ running/); split(substr($0, RSTART), word, " ")
            print word[1] }')
        json=$("$WHIMBREL" ps --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["connections"])')
        [[ $table == "$1" && $json == "$1" ]] && break
        sleep 0.1
    done
    expect_same "$1 clients, in both forms" "$table $json" "$1 $1"
}
clients_are 0
url=$("$WHIMBREL" ps --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["url"])')
exec 5<>"/dev/tcp/127.0.0.1/${url##*:}"
printf 'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n' >&5
clients_are 1
exec 5>&-

if why=$(python3 - "$TEST_TMP/out" 2>&1 <<'PY'
import json, sys, urllib.request
url = json.load(open(sys.argv[1]))[0]["url"]
about = json.load(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url + "/v1/models"))["data"][0]["whimbrel"]
assert about["demo"] is False, about
PY
); then
    ok "a model of one's own is no demo"
else
    bad "a model of one's own is no demo" "$(tail -1 <<<"$why")"
fi

kill -9 $one
wait $one 2>/dev/null
run_it ps --json
expect_python "one that was killed is forgotten" "
assert [r['pid'] for r in json.loads(text)] == [$two]"
[[ $(ls "$WHIMBREL_CACHE/running") == "$two".*.json ]] && ok "its file is deleted" ||
    bad "its file is deleted" "$(ls "$WHIMBREL_CACHE/running")"

# What others may have left there: no JSON, too little in it, another machine's.
echo "no JSON" >"$WHIMBREL_CACHE/running/1.x.json"
echo '{"pid":1}' >"$WHIMBREL_CACHE/running/2.x.json"
sed 's/"machine":"[^"]*"/"machine":"elsewhere"/' "$WHIMBREL_CACHE/running/$two".*.json >"$WHIMBREL_CACHE/running/3.x.json"
run_it ps --json
expect_python "odd files are passed over" "
assert [r['pid'] for r in json.loads(text)] == [$two]"

kill -STOP $two # lives, and does not answer, when all its threads have stopped
for _ in $(seq 300); do
    grep -h ^State: /proc/$two/task/*/status | grep -qv "T (stopped)" || break
    sleep 0.1
done
run_it ps
expect "one that hangs" 0 out "no answer"
kill -CONT $two
kill $two
wait $two
run_it ps
expect "one that was stopped is forgotten" 0 out "no server"
pids=()
finish
