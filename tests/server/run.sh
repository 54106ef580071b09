#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The server against the official clients: makes build/test-venv from requirements.txt when it is not there yet, then
# runs pytest. Exit status 77, with the reason, where the clients cannot be had or there is no model to serve.
set -u
cd "$(dirname "$0")/../.." || exit 1
venv=build/test-venv
want=$(sha256sum <tests/server/requirements.txt)

skip()
{
    echo "skip server: $1"
    exit 77
}

model=${XDG_CACHE_HOME:-${HOME:-}/.cache}/whimbrel/SmolLM2-135M-Instruct.Q4_1.gguf
[[ -f $model ]] || skip "the default model is not there; make model"

if [[ $(cat "$venv/ready" 2>/dev/null) != "$want" ]]; then
    rm -rf "$venv"
    python3 -m venv "$venv" || skip "no virtual environment can be made; Debian's package is python3-venv"
    "$venv/bin/pip" install --disable-pip-version-check --no-input -q --retries 1 -r tests/server/requirements.txt ||
        skip "pip could not install the clients: no registry that has them can be reached"
    echo "$want" >"$venv/ready"
fi
exec env PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" tests/server/run.py "$@"
