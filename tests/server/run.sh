#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The server against the official clients, by pytest. Exit status 77, with the reason, where the clients cannot be had
# or there is no model to serve.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/server/venv.sh

need_model server
need_venv server
exec env PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" tests/server/run.py "$@"
