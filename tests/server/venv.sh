# SPDX-License-Identifier: Apache-2.0
# For the shell scripts of tests that need Python packages: build/test-venv, made from requirements.txt when it is not
# there yet. From the root of the repository: `. tests/server/venv.sh`, then need_venv STAGE.
venv=build/test-venv

# skip STAGE WHY
skip()
{
    echo "skip $1: $2"
    exit 77
}

# Tests that keep pages over a restart say where.
export WHIMBREL_KV_DIR=

need_model()
{
    [[ -f ${XDG_CACHE_HOME:-${HOME:-}/.cache}/whimbrel/SmolLM2-135M-Instruct.Q4_1.gguf ]] ||
        skip "$1" "the default model is not there; make model"
}

# The list is complete, so what a package says it needs besides is left out.
need_venv()
{
    local want lock
    # The test runner makes it ahead of the stages that need it: one of them at a time.
    mkdir -p build && exec {lock}>build/test-venv.lock && flock "$lock"
    want=$(sha256sum <tests/server/requirements.txt)
    [[ $(cat "$venv/ready" 2>/dev/null) != "$want" ]] || { exec {lock}>&-; return 0; }
    rm -rf "$venv"
    python3 -m venv "$venv" || skip "$1" "no virtual environment can be made; Debian's package is python3-venv"
    "$venv/bin/pip" install --disable-pip-version-check --no-input -q --retries 1 --no-deps \
        -r tests/server/requirements.txt ||
        skip "$1" "pip could not install the clients: no registry that has them can be reached"
    echo "$want" >"$venv/ready"
    exec {lock}>&-
}
