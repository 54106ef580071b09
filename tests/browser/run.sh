#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The chat page and the dashboard in a real Chromium: tests/browser/run.sh [FILE or pytest options]. Screenshots and
# logs go to build/test-logs/browser. Exit status 77, with the reason, where there is no Chromium, no page, no model or
# no registry.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/server/venv.sh

missing=$(tools/setup --missing browser && tools/setup --missing page)
[[ -z $missing ]] || skip browser "not there; as Debian's packages are called: ${missing//$'\n'/ }"
need_model browser
need_venv browser
rm -rf build/test-tmp/browser
mkdir -p build/test-tmp/browser
(($# > 0)) || set -- tests/browser
run()
{
    env TEST_TMP="$PWD/build/test-tmp/browser" PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" tests/server/run.py "$@"
}
# Chromium reports some events late, and one run in many meets such a race between two tests: it gets a second try, and
# the log has both.
run "$@" && exit
echo "a second try:"
run "$@"
