#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# All of schemathesis against the server (see described.py); the server stage runs a small part of it.
#   tests/server/described.sh [EXAMPLES [SEED]]
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/server/venv.sh

need_model described
need_venv described
exec env PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" tests/server/described.py "$@"
