# SPDX-License-Identifier: Apache-2.0
# make golden TEMPLATES="FOLDER...": templates of folders against Jinja2. Python has Jinja2 itself here, and a stand-in for
# transformers, of which only the settings of its environment are wanted; so nothing is fetched.
. "$(dirname "$0")/common.bash"
cd "$cli/../.." || exit 1

test=build/$(uname -m)-test/tests/unit/jinja/template_test
if ! python3 -c "import jinja2" 2>/dev/null; then
    skip "make golden TEMPLATES" "python3 has no jinja2"
    finish
elif [[ ! -x $test ]]; then
    skip "make golden TEMPLATES" "$test is not built; the stage \"unit\" builds it"
    finish
fi
mkdir -p "$TEST_TMP/python/transformers/utils" "$TEST_TMP/one" "$TEST_TMP/two" "$TEST_TMP/none"
touch "$TEST_TMP/python/transformers/__init__.py" "$TEST_TMP/python/transformers/utils/__init__.py"
cat >"$TEST_TMP/python/transformers/utils/chat_template_utils.py" <<'END'
import json

from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment


def fail(message):
    raise TemplateError(message)


def _compile_jinja_template(source):
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    env.filters["tojson"] = lambda value, **how: json.dumps(value, ensure_ascii=False, **how)
    env.globals["raise_exception"] = fail
    return env.from_string(source)
END
cat >"$TEST_TMP/one/turns.jinja" <<'END'
{%- for m in messages %}
    {%- if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}
    {{- bos_token + m.role + ': ' ~ m.content ~ '\n' }}
{%- endfor %}
END
echo "{{ tools | tojson if tools else messages | length }}" >"$TEST_TMP/two/turns.jinja" # of the same name

# make_golden FOLDERS: as a person calls it, but for where Python is.
make_golden()
{
    MAKEFLAGS='' PYTHONPATH=$TEST_TMP/python make -o build/venv/ready golden TEMPLATES="$1" GOLDEN_PYTHON=python3 \
        >"$TEST_TMP/out" 2>"$TEST_TMP/err"
    rc=$?
    out=$(<"$TEST_TMP/out")
    err=$(<"$TEST_TMP/err")
}

make_golden "$TEST_TMP/one $TEST_TMP/two"
expect "templates of two folders" 0 out "2 templates x " out $'\n0 of ' out "renderings differ"
make_golden "$TEST_TMP/none"
expect "a folder without templates" 2 err "none has no *.jinja"
finish
