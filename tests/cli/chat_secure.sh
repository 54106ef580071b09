# SPDX-License-Identifier: Apache-2.0
# https to a server: whimbrel chat --url, warm --url and bench --serve with certificates that are made here, good and bad.
given=${TEST_TMP:-}
. "$(dirname "$0")/common.bash"

unset WHIMBREL_API_KEY SSL_CERT_FILE SSL_CERT_DIR
export WHIMBREL_CACHE=$TEST_TMP/cache
mkdir -p "$WHIMBREL_CACHE" "$TEST_TMP/no-roots"
servers=()
leave()
{
    kill "${servers[@]}" 2>/dev/null
    [[ -n $given ]] || rm -rf "$TEST_TMP"
}
trap leave EXIT
program=$(realpath "$WHIMBREL")
if ! command -v openssl >/dev/null; then
    skip "https to a server" "openssl, which makes the certificates, is not there"
    finish
fi

# --- certificates -------------------------------------------------------------------------------------------------------
cd "$TEST_TMP" || exit 1
ec=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
# authority NAME: NAME.pem signs with NAME.key.
authority()
{
    openssl req -x509 "${ec[@]}" -keyout "$1.key" -out "$1.pem" -subj "/CN=$1" -days 2 2>/dev/null
}
# signed NAME ALTERNATIVES DAYS AUTHORITY: NAME.pem with its key in it.
signed()
{
    openssl req "${ec[@]}" -keyout "$1.key" -out "$1.csr" -subj "/CN=$1" 2>/dev/null
    printf 'subjectAltName=%s\n' "$2" >"$1.ext"
    openssl x509 -req -in "$1.csr" -CA "$4.pem" -CAkey "$4.key" -CAcreateserial -days "$3" -extfile "$1.ext" -out "$1.pem" 2>/dev/null
    cat "$1.key" >>"$1.pem"
}
authority ours
authority others
signed good "DNS:localhost,IP:127.0.0.1" 2 ours
signed elsewhere "DNS:elsewhere.example,IP:127.0.0.9" 2 ours
signed expired "DNS:localhost" -1 ours
openssl req -x509 "${ec[@]}" -keyout alone.key -out alone.pem -subj /CN=alone -addext "subjectAltName=DNS:localhost" \
    -addext "basicConstraints=critical,CA:FALSE" -days 2 2>/dev/null
cp alone.pem alone-public.pem
cat alone.key >>alone.pem
for name in ours others good elsewhere expired alone; do
    openssl x509 -in $name.pem -noout || bad "a certificate: $name" "openssl did not make it"
done

# fake CERTIFICATE: start the scripted server with it, empty without https; sets port.
fake()
{
    if [[ -n $1 ]]; then export TLS_CERT=$1.pem; else unset TLS_CERT; fi
    python3 "$cli/chat_server.py" "$TEST_TMP/log" >"$TEST_TMP/port" &
    servers+=($!)
    for ((i = 0; i < 600; i++)); do
        [[ -s $TEST_TMP/port ]] && break
        sleep 0.1
    done
    port=$(<"$TEST_TMP/port")
    : >"$TEST_TMP/port"
}
talk()
{
    "$program" chat -q "$@" >"$TEST_TMP/out" 2>"$TEST_TMP/err"
    rc=$?
    out=$(<"$TEST_TMP/out")
    err=$(<"$TEST_TMP/err")
}

# --- a certificate that is right ----------------------------------------------------------------------------------------
fake good
good=$port
talk --url "https://localhost:$good" --ca-file ours.pem <<<"hello"
expect_same "an answer over https" "$out" "first heard hello"
talk --url "HTTPS://127.0.0.1:$good/v1" --ca-file ours.pem second <<<"hello"
expect_same "by its address" "$out" "second heard hello"
SSL_CERT_FILE=ours.pem talk --url "https://localhost:$good" <<<"hello"
expect_same "by the roots of the system, as OpenSSL is told them" "$out" "first heard hello"
talk --url "https://localhost:$good" --ca-file ours.pem <<<$'wrap\nagain'
expect "a conversation" 0 out "it has to curve. The curvature" out "first heard again"
talk --url "https://localhost:$good" --ca-file ours.pem <<<"cut"
expect "a server that goes away" 1 err "cut off before the end"
export SSL_CERT_DIR=$TEST_TMP/no-roots SSL_CERT_FILE=$TEST_TMP/none.pem
talk --url "https://localhost:$good" <<<"hello"
expect "an authority that nobody knows" 1 err "no https with localhost:$good" err "not signed by an authority that this machine knows" \
    err "--ca-file FILE"
talk --url "https://localhost:$good" --ca-file others.pem <<<"hello"
expect "an authority that is another one" 1 err "not signed by an authority of others.pem"
SSL_CERT_FILE=ours.pem talk --url "https://localhost:$good" --ca-file others.pem <<<"hello"
expect "--ca-file alone counts" 1 err "not signed by an authority of others.pem"

# --- certificates that are wrong ----------------------------------------------------------------------------------------
fake elsewhere
talk --url "https://localhost:$port" --ca-file ours.pem <<<"hello"
expect "the certificate of another name" 1 err "its certificate is not for localhost"
talk --url "https://127.0.0.1:$port" --ca-file ours.pem <<<"hello"
expect "the certificate of another address" 1 err "its certificate is not for 127.0.0.1"
fake expired
talk --url "https://localhost:$port" --ca-file ours.pem <<<"hello"
expect "a certificate that has expired" 1 err "its certificate has expired"
fake alone
talk --url "https://localhost:$port" <<<"hello"
expect "a certificate that signs itself" 1 err "not signed by an authority that this machine knows"
talk --url "https://localhost:$port" --ca-file alone-public.pem <<<"hello"
expect_same "can be trusted by name" "$out" "first heard hello"

# --- other mistakes -----------------------------------------------------------------------------------------------------
talk --url "http://localhost:$good" <<<"hello"
expect "http where https is spoken" 1 err "http://localhost:$good does not answer"
fake ""
talk --url "https://localhost:$port" --ca-file ours.pem <<<"hello"
expect "https where http is spoken" 1 err "it does not speak TLS" err "is its address http://?"
talk --url "https://localhost:$good" --ca-file none.pem <<<"hello"
expect "no such file" 1 err "--ca-file none.pem: No such file"
talk --url "https://localhost:$good" --ca-file good.ext <<<"hello"
expect "a file without a certificate" 1 err "--ca-file good.ext: there is no certificate in it"
talk --url "https://localhost:1" --ca-file ours.pem <<<"hello"
expect "nobody there" 1 err "no connection to localhost:1"
export TLS_CLIENTS=1
fake good
unset TLS_CLIENTS
talk --url "https://localhost:$port" --ca-file ours.pem <<<"hello"
expect "a server that wants a certificate of ours" 1 err "no https with localhost:$port" err "certificate required"

# --- long requests, many of them ----------------------------------------------------------------------------------------
python3 -c 'import json; print(json.dumps([{"messages": [{"role": "user", "content": "long words " * 800000}]}]))' >long.json
run_it warm long.json --url "https://localhost:$good" --ca-file ours.pem
expect "a prompt of 8 MB arrives whole" 0 out "1 prompt, 7 tokens"
run_it bench --serve "https://localhost:$good" --ca-file ours.pem --endpoint chat --clients 1,4 --requests 8 -p 20 -n 5 --json
expect_python "bench measures it with several clients" "
rows = [json.loads(line) for line in text.splitlines()]
assert len(rows) == 2 and all(r['errors'] == 0 and r['requests'] == 8 for r in rows), rows"
run_it bench --serve "https://localhost:$good" --clients 1 --requests 1
expect "and refuses what chat refuses" 2 err "not signed by an authority"

# --- our own server ----------------------------------------------------------------------------------------------------
model=${XDG_CACHE_HOME:-${HOME:-}/.cache}/whimbrel/SmolLM2-135M-Instruct.Q4_1.gguf
if [[ ! -f $model ]]; then
    skip "a server of ours with https" "the default model is not there; make model fetches it"
    finish
fi
"$program" serve "$model" --port 0 --log-format json --tls-cert good.pem --tls-key good.key >"$TEST_TMP/serve.log" 2>&1 &
servers+=($!)
for ((i = 0; i < 600; i++)); do
    grep -q '"event":"ready"' "$TEST_TMP/serve.log" && break
    sleep 0.2
done
ours=$("$program" ps --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["url"])')
talk --url "${ours/127.0.0.1/localhost}" --ca-file ours.pem --temp 0 -n 16 <<<"Name a bird."
expect "our own server answers over https" 0
secured=$out
talk "$model" --temp 0 -n 16 <<<"Name a bird."
expect_same "what a model of one's own answers" "$secured" "$out"
finish
