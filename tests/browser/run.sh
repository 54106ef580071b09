#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The chat page and the dashboard in a real Chromium: tests/browser/run.sh [FILE or pytest options]. Screenshots and logs
# go to build/test-logs/browser. Exit status 77, with the reason, where there is no Chromium, no model or no registry.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/server/venv.sh

missing=$(tools/setup --missing browser)
[[ -z $missing ]] || skip browser "no Chromium; Debian's package is ${missing//$'\n'/ }"
need_model browser
need_venv browser
(($# > 0)) || set -- tests/browser
exec env PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" tests/server/run.py "$@"
