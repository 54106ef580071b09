/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that every template can call. */
#include "jinja/eval.h"

#include <locale.h>
#include <string.h>
#include <time.h>

static whim_jval global_raise(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *text = whim_jval_to_str(j, c->a[0]);
    int n = text->n > 1500 ? 1500 : (int)text->n;
    j->err = whim_fail(j->diag, WHIM_ERR_INVALID, "%.*s", n, text->s);
    longjmp(j->leave, 1);
}

static whim_jval global_range(whim_jinja *j, const whim_jcall *c)
{
    bool one = c->a[1].kind == WHIM_J_MISSING;
    int64_t from = one ? 0 : whim_jarg_int(j, c->a[0], 0, "an argument of range");
    int64_t to = whim_jarg_int(j, one ? c->a[0] : c->a[1], 0, "an argument of range");
    int64_t by = whim_jarg_int(j, c->a[2], 1, "the step of range");
    const int64_t far = (int64_t)1 << 60;
    if (by == 0 || from < -far || from > far || to < -far || to > far || by < -far || by > far) {
        whim_jinja_fail(j, "the arguments of range are too large, or its step is zero");
    }
    int64_t n = by > 0 ? (to - from + by - 1) / by : (from - to - by - 1) / -by;
    n = (by > 0 ? to <= from : to >= from) ? 0 : n;
    if (n > WHIM_JINJA_RANGE) {
        whim_jinja_fail(j, "range gives at most %d numbers", (int)WHIM_JINJA_RANGE);
    }
    bool trusted = whim_jval_trusted(j, c->a[0]) && (one || whim_jval_trusted(j, c->a[1]));
    whim_jval out = whim_jval_list(j, WHIM_JL_RANGE);
    out.list->start = from;
    out.list->stop = to;
    out.list->step = by;
    whim_jinja_pay(j, n / 8);
    for (int64_t i = 0; i < n; i++) {
        whim_jlist_push(j, out.list, whim_jval_int(from + i * by, trusted));
    }
    return out;
}

/* dict() and namespace(): a dict or pairs, and named values. */
static whim_jval global_dict(whim_jinja *j, const whim_jcall *c)
{
    const whim_jargs *args = c->raw;
    whim_jval out = whim_jval_dict(j, (whim_jkind)c->mode);
    if (args->pos.n > 1) {
        whim_jinja_fail(j, "a dict is made of at most one argument and named values");
    }
    if (args->pos.n == 1 && args->pos.v[0].kind == WHIM_J_DICT) {
        whim_jinja_pay(j, args->pos.v[0].dict->n);
        whim_jdict_update(j, out.dict, args->pos.v[0].dict);
    } else if (args->pos.n == 1) {
        const whim_jlist *pairs = whim_jval_iterate(j, args->pos.v[0]);
        for (int64_t i = 0; i < pairs->n; i++) {
            const whim_jlist *pair = whim_jval_iterate(j, pairs->v[i]);
            if (pair->n != 2) {
                whim_jinja_fail(j, "a dict is made of pairs, found an item of %lld values",
                                (long long)pair->n);
            }
            whim_jdict_set(j, out.dict, pair->v[0], pair->v[1]);
        }
    }
    whim_jdict_update(j, out.dict, &args->named);
    return out;
}

static whim_jval global_cycler(whim_jinja *j, const whim_jcall *c)
{
    if (c->raw->pos.n == 0) {
        whim_jinja_fail(j, "cycler wants at least one item");
    }
    whim_jval out = whim_jval_list(j, WHIM_JL_LIST);
    *out.list = c->raw->pos;
    out.kind = WHIM_J_CYCLER;
    return out;
}

static whim_jval global_joiner(whim_jinja *j, const whim_jcall *c)
{
    whim_jval out = whim_jval_list(j, WHIM_JL_LIST);
    whim_jlist_push(j, out.list, whim_jarg_or(c->a[0], whim_jval_str(j, ", ", 2, true)));
    out.kind = WHIM_J_JOINER;
    return out;
}

/* One directive of strftime. Names are English whatever the program's locale is. Seconds are whole,
 * and there is no zone, as in Python's datetime.now(). */
static void put_time(whim_jinja *j, whim_jbuf *buf, const struct tm *tm, const char *directive,
                     bool trusted)
{
    char out[80] = "", kind = directive[strlen(directive) - 1];
    locale_t english = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (kind == 'f') {
        strcpy(out, "000000");
    } else if (kind != 'z' && kind != 'Z' && english != (locale_t)0) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        if (strftime_l(out, sizeof out, directive, tm, english) == 0) {
            out[0] = '\0';
        }
#pragma GCC diagnostic pop
    }
    if (english != (locale_t)0) {
        freelocale(english);
    }
    whim_jbuf_add(j, buf, out, (int64_t)strlen(out), trusted);
}

static whim_jval global_strftime_now(whim_jinja *j, const whim_jcall *c)
{
    const whim_jstr *format = whim_jarg_str(j, c->a[0], "the format of strftime_now");
    time_t now = (time_t)j->now;
    struct tm tm;
    if (gmtime_r(&now, &tm) == NULL) {
        whim_jinja_fail(j, "the clock is out of range");
    }
    whim_jbuf buf = {0};
    for (int64_t at = 0; at < format->n;) {
        bool trusted = whim_jstr_trust(format, at, at + 1);
        int64_t flag = at + 1 < format->n && strchr("-_0", format->s[at + 1]) != NULL;
        int64_t kind = at + 1 + flag;
        bool known = format->s[at] == '%' && kind < format->n && format->s[kind] != '\0' &&
                     strchr("aAbBcdeHhIjklmMnpPrRsStTuUVGgwWxXyYzZfFDC%", format->s[kind]) != NULL;
        whim_jinja_pay(j, 1);
        if (known) {
            whim_jinja_pay(j, 8); /* for a locale and printf */
            char directive[4] = {'%', format->s[at + 1], flag ? format->s[kind] : '\0', '\0'};
            put_time(j, &buf, &tm, directive, trusted);
            at = kind + 1;
        } else {
            whim_jbuf_add(j, &buf, format->s + at, 1, trusted);
            at++;
        }
    }
    return whim_jbuf_take(j, &buf);
}

const whim_jentry whim_jglobals[] = {
    {"raise_exception", "message", 1, global_raise, 0},
    {"strftime_now", "format", 1, global_strftime_now, 0},
    {"namespace", NULL, 0, global_dict, WHIM_J_NAMESPACE},
    {"range", "start stop step", 1, global_range, 0},
    {"dict", NULL, 0, global_dict, WHIM_J_DICT},
    {"cycler", NULL, 0, global_cycler, 0},
    {"joiner", "sep", 0, global_joiner, 0},
    {NULL, NULL, 0, NULL, 0},
};
