# SPDX-License-Identifier: Apache-2.0
# whimbrel bench --serve: figures, counts and failures against a server whose delays are known.
. "$(dirname "$0")/common.bash"

if ! command -v python3 >/dev/null; then
    skip "bench --serve" "no python3 for the server"
    finish
fi
calls=$TEST_TMP/calls
exec 3< <(exec python3 "$cli/bench_serve_peer.py" "$calls")
server=$!
read -r port <&3
url=http://127.0.0.1:$port
trap 'kill "$server" 2>/dev/null' EXIT

# load HOW ARGS...: two clients, 6 requests, quietly, as JSON.
load()
{
    local how=$1
    shift
    : >"$calls"
    run_it bench --serve "$url" --model "$how" --clients 2 --requests 6 -p 20 -n 5 --warmup 0 --json -q "$@"
}
# kinds NAME HOW WANTED ARGS...: all 6 fail, and so.
kinds()
{
    local name=$1 how=$2 want=$3
    shift 3
    load "$how" "$@"
    expect "$name: all failed" 1 err "all requests failed"
    expect_python "$name: told by kind" "
r = json.loads(text)
assert (r['requests'], r['errors'], r['error_kinds']) == (6, 6, $want), r
assert r['req_per_s'] == 0 and r['gen_tokens'] == 0 and r['ttft_ms_p50'] is None and r['itl_ms_p99'] is None, r"
}

# --- the figures ---
run_it bench --serve "$url" --clients 1,4 --requests 8 -p 20 -n 5 --warmup 3 --json
expect "two rows" 0 err "bench (requests)" err "19 of 19"
expect_python "json has exactly the promised keys and counts" "
rows = [json.loads(line) for line in text.splitlines()]
times = [f'{t}_ms_{p}' for t in ('ttft', 'tpot', 'itl') for p in ('p50', 'p90', 'p99')]
assert [r['clients'] for r in rows] == [1, 4]
for r in rows:
    assert list(r) == ['url', 'model', 'endpoint', 'clients', 'requests', 'errors', 'duration_s', 'req_per_s',
                       'total_tps', 'gen_tps', *times, 'prompt_tokens', 'gen_tokens', 'cached_tokens',
                       'tokens_from', 'error_kinds'], list(r)
    assert r['url'] == '$url/v1' and r['model'] == 'plain' and r['endpoint'] == 'completions'
    assert (r['requests'], r['errors'], r['error_kinds'], r['tokens_from']) == (8, 0, {}, 'usage')
    assert (r['prompt_tokens'], r['gen_tokens'], r['cached_tokens']) == (8 * 25, 8 * 5, 8 * 3), r
    assert abs(r['req_per_s'] * r['duration_s'] - 8) < 1e-6
    assert abs(r['gen_tps'] * r['duration_s'] - 40) < 1e-6 and abs(r['total_tps'] * r['duration_s'] - 240) < 1e-6"
expect_python "the server's delays are what is measured" "
for r in map(json.loads, text.splitlines()):
    # A client that gets no CPU time sees pieces together; but none before it was sent.
    assert 60 <= r['ttft_ms_p50'] and 15 <= r['itl_ms_p99'] and 120 <= r['ttft_ms_p99'] + 4 * r['tpot_ms_p99'], r
    for t in ('ttft', 'tpot', 'itl'):
        assert r[t + '_ms_p50'] <= r[t + '_ms_p90'] <= r[t + '_ms_p99'], r
    assert r['duration_s'] >= 8 / r['clients'] * 0.14, r"
if why=$(python3 - "$calls" 2>&1 <<'END_PYTHON'
import json, sys
calls = [json.loads(line) for line in open(sys.argv[1])]
assert len(calls) == 3 + 8 + 8, len(calls)
assert max(c["now"] for c in calls[3:11]) == 1 and max(c["now"] for c in calls[11:]) == 4
prompts = [c["body"].pop("prompt") for c in calls]
assert len({p.split()[0] + p.split()[1] for p in prompts}) > 12, "prompts begin alike"
assert len(set(prompts)) == 19 and all(len(p.split()) == 20 for p in prompts)
for c in calls:
    assert c["path"] == "/v1/completions" and c["auth"] is None
    assert c["body"] == {"model": "plain", "max_tokens": 5, "ignore_eos": True, "temperature": 0,
                         "stream": True, "stream_options": {"include_usage": True}}, c["body"]
END_PYTHON
); then
    ok "what the server got: bodies, prompts of their own, so many at once"
else
    bad "what the server got: bodies, prompts of their own, so many at once" "$(tail -1 <<<"$why")"
fi
load plain --endpoint chat --prefix-tokens 30 --api-key secret-1 --temp 0.7
expect_python "chat with a shared prefix" "
r = json.loads(text)
assert (r['errors'], r['endpoint'], r['gen_tokens'], r['prompt_tokens']) == (0, 'chat', 30, 6 * 55), r
assert 60 <= r['ttft_ms_p50'], r
calls = [json.loads(line) for line in open('$calls')]
prompts = [c['body']['messages'][0]['content'].split() for c in calls]
assert all(p[:30] == prompts[0][:30] for p in prompts) and len({tuple(p[30:]) for p in prompts}) == 6
assert {c['body']['temperature'] for c in calls} == {0.7}
assert {c['path'] for c in calls} == {'/v1/chat/completions'} and {c['auth'] for c in calls} == {'Bearer secret-1'}"
load thinks --endpoint chat
expect_python "reasoning is generated too" "
r = json.loads(text)
assert r['errors'] == 0 and r['ttft_ms_p50'] > 0 and r['itl_ms_p99'] > 15, r"
load raw
expect_python "without usage chunks are counted, and that is said" "
r = json.loads(text)
assert (r['errors'], r['gen_tokens'], r['prompt_tokens'], r['tokens_from']) == (0, 30, 120, 'chunks'), r"
load bytes
expect_python "a stream in chunks of one byte, comments, events of many lines" "
r = json.loads(text)
assert (r['errors'], r['gen_tokens'], r['tokens_from']) == (0, 30, 'chunks'), r"
load pairs -n 6
expect_python "the time for a token goes by usage, not by chunks" "
r = json.loads(text)
assert r['gen_tokens'] == 36 and 15 < r['itl_ms_p99'] and r['tpot_ms_p50'] < 0.6 * r['itl_ms_p99'], r"
load textless
expect_python "tokens without text count" "
r = json.loads(text)
assert r['errors'] == 0 and r['gen_tokens'] == 30 and r['itl_ms_p99'] > 15, r"
load opener
expect_python "a chunk that only opens the stream is no token" "
r = json.loads(text)
assert r['errors'] == 0 and r['ttft_ms_p50'] >= 60, r"
load short
expect_python "answers that end early are counted as they are" "assert json.loads(text)['gen_tokens'] == 18"

# --- failures ---
: >"$calls"
run_it bench --serve "$url/v1/" --model mixed --clients 3 --requests 20 -p 9 -n 3 --warmup 0
expect "failures do not end the run" 0 out "10 of 20 requests failed" out "5 cut off before the end" \
    out "5 refused with HTTP status 503 (too busy  [31m<now>)" out "the server counted them (usage)"
kinds "status" status "{'status_503': 6}"
kinds "another status" notfound "{'status_404': 6}"
kinds "half a stream" half "{'cut': 6}"
kinds "half a head" early "{'cut': 6}"
kinds "closed at once" reset "{'cut': 6}"
kinds "an error in the stream" error "{'stream': 6}"
kinds "an event that is no JSON" badjson "{'protocol': 6}"
kinds "no HTTP" garbage "{'protocol': 6}"
kinds "no stream" json "{'no_stream': 6}"
kinds "no token" empty "{'empty': 6}"
kinds "silence" silent "{'timeout': 6}" --timeout 0.2

# --- the table and the plot ---
run_it bench --serve "$url" --clients 1,2 --requests 4 -p 20 -n 5 --plot "$TEST_TMP/plot.svg"
expect "a table" 0 out "TTFT ms" out "TPOT ms" out "ITL ms" out "25.0 prompt tokens" out "3.0 of them" \
    out "5.0 generated" out "model plain"
expect_same "a row for each number of clients" "$(awk '$1 ~ /^[0-9]+$/ && NF == 14 { print $1, $2 }' <<<"$out" | xargs)" "1 4 2 4"
expect_python "the plot is XML with all series and no point outside" "
import xml.dom.minidom
doc = xml.dom.minidom.parse('$TEST_TMP/plot.svg')
dots = doc.getElementsByTagName('circle')
assert len(dots) == 2 * (2 + 3 + 3 + 3), len(dots)
assert len(doc.getElementsByTagName('path')) == 11
for d in dots:
    assert 72 <= float(d.getAttribute('cx')) <= 448 and 44 <= float(d.getAttribute('cy')) <= 248
assert 'prefers-color-scheme:dark' in doc.getElementsByTagName('style')[0].firstChild.data"
run_it bench --serve "$url" --clients 2 --requests 2 -n 2 -q --model 'status' --plot "$TEST_TMP/none.svg"
expect "a plot of nothing" 1
expect_python "is drawn without points" "
import xml.dom.minidom
assert not xml.dom.minidom.parse('$TEST_TMP/none.svg').getElementsByTagName('circle')"

# --- refusals ---
for bad_url in ftp://x 127.0.0.1:80 "http://" "http://a b" "http://u@h/" "http://h:x" "http://[::1" "http://h?q"; do
    run_it bench --serve "$bad_url"
    expect "no such URL: $bad_url" 2 err "--serve" err "http://HOST"
done
kill "$server"
wait "$server" 2>/dev/null
run_it bench --serve "$url" --clients 1
expect "nobody there" 1 err "no connection to 127.0.0.1:$port"
run_it bench --serve "http://no-such-host.invalid"
expect "no such host" 1 err "no-such-host.invalid"
run_it bench --serve "$url" some-model
expect "a model file has no place here" 2 err "some-model" err "--model"
run_it bench --serve "$url" -b 2
expect "nor has a batch" 2 err "--batch"
run_it bench --clients 2
expect "clients need a server" 2 err "--clients" err "--serve"
run_it bench --serve "$url" --api-key $'a\nb'
expect "a key with a line break" 2 err "--api-key"
finish
