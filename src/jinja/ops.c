/* SPDX-License-Identifier: Apache-2.0 */
/* Operators, with Python's meaning: integers are exact (64 bits, an error beyond), // and % round
 * down, / always gives a float. */
#include "jinja/eval.h"

#include <math.h>
#include <string.h>

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

_Noreturn static void too_large(whim_jinja *j)
{
    whim_jinja_fail(j, "the result does not fit into 64 bits");
}

static int64_t int_power(whim_jinja *j, int64_t base, int64_t exponent)
{
    int64_t result = 1;
    while (exponent > 0) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
            too_large(j);
        }
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
            too_large(j);
        }
    }
    return result;
}

static whim_jval int_op(whim_jinja *j, int op, int64_t a, int64_t b, bool trusted)
{
    int64_t r = 0;
    bool overflow = false;
    switch (op) {
    case '+':
        overflow = __builtin_add_overflow(a, b, &r);
        break;
    case '-':
        overflow = __builtin_sub_overflow(a, b, &r);
        break;
    case '*':
        overflow = __builtin_mul_overflow(a, b, &r);
        break;
    case '/':
        return whim_jval_float((double)a / (double)b, trusted);
    case '%':
        r = b == -1 ? 0 : a - floor_div(a, b) * b;
        break;
    case WHIM_JOP2('/', '/'):
        overflow = a == INT64_MIN && b == -1;
        r = overflow ? 0 : floor_div(a, b);
        break;
    default:
        if (b < 0) {
            if (a == 0) {
                whim_jinja_fail(j, "division by zero");
            }
            return whim_jval_float(pow((double)a, (double)b), trusted);
        }
        r = int_power(j, a, b);
        break;
    }
    if (overflow) {
        too_large(j);
    }
    return whim_jval_int(r, trusted);
}

static whim_jval float_op(whim_jinja *j, int op, double a, double b, bool trusted)
{
    double r;
    switch (op) {
    case '+':
        r = a + b;
        break;
    case '-':
        r = a - b;
        break;
    case '*':
        r = a * b;
        break;
    case '/':
        r = a / b;
        break;
    case '%':
        r = fmod(a, b);
        r = r != 0 && (r < 0) != (b < 0) ? r + b : r;
        break;
    case WHIM_JOP2('/', '/'):
        r = floor(a / b);
        break;
    default:
        r = pow(a, b);
        if (isnan(r) && !isnan(a) && !isnan(b)) {
            whim_jinja_fail(j, "the power is not a real number");
        }
        break;
    }
    return whim_jval_float(r, trusted);
}

static whim_jval repeat(whim_jinja *j, whim_jval what, int64_t times)
{
    times = times < 0 ? 0 : times;
    if (what.kind == WHIM_J_STR && what.str->n > 0 && times > WHIM_JINJA_OUTPUT / what.str->n) {
        whim_jinja_exceed(j, "the template makes a text of more than %d MiB",
                          (int)(WHIM_JINJA_OUTPUT >> 20));
    }
    if (what.kind == WHIM_J_STR) {
        whim_jbuf buf = {0};
        for (int64_t i = 0; i < times && what.str->n > 0; i++) {
            whim_jinja_pay(j, 1);
            whim_jbuf_add_str(j, &buf, what.str);
        }
        whim_jval out = whim_jbuf_take(j, &buf);
        return what.str->safe ? whim_jstr_safe(j, out.str) : out;
    }
    whim_jval out = whim_jval_list(j, what.list->kind);
    for (int64_t i = 0; i < times && what.list->n > 0; i++) {
        whim_jinja_pay(j, 1);
        whim_jlist_extend(j, out.list, what.list);
    }
    return out;
}

static whim_jval join_two(whim_jinja *j, whim_jval a, whim_jval b)
{
    if (a.kind == WHIM_J_STR) {
        const bool safe = a.str->safe || b.str->safe;
        if (a.str->safe != b.str->safe) {
            a = whim_jstr_escape(j, a.str);
            b = whim_jstr_escape(j, b.str);
        }
        if (a.str->n == 0 || b.str->n == 0) {
            return a.str->n == 0 ? b : a;
        }
        whim_jbuf buf = {0};
        whim_jbuf_add_str(j, &buf, a.str);
        whim_jbuf_add_str(j, &buf, b.str);
        whim_jval out = whim_jbuf_take(j, &buf);
        return safe ? whim_jstr_safe(j, out.str) : out;
    }
    whim_jval out = whim_jval_list(j, a.list->kind);
    whim_jlist_extend(j, out.list, a.list);
    whim_jlist_extend(j, out.list, b.list);
    return out;
}

static bool is_joinable(whim_jval v)
{
    return v.kind == WHIM_J_STR || (v.kind == WHIM_J_LIST && v.list->kind <= WHIM_JL_TUPLE);
}

static bool is_integral(whim_jval v)
{
    return v.kind == WHIM_J_INT || v.kind == WHIM_J_BOOL;
}

whim_jval whim_jinja_binary(whim_jinja *j, int op, whim_jval a, whim_jval b)
{
    if (whim_jval_is_number(a) && whim_jval_is_number(b)) {
        int64_t ia, ib;
        double fa, fb;
        bool ints = whim_jval_as_number(a, &ia, &fa);
        ints &= whim_jval_as_number(b, &ib, &fb);
        bool trusted = a.trusted && b.trusted;
        if ((op == '/' || op == '%' || op == WHIM_JOP2('/', '/')) && fb == 0) {
            whim_jinja_fail(j, "division by zero");
        }
        return ints ? int_op(j, op, ia, ib, trusted) : float_op(j, op, fa, fb, trusted);
    }
    if (op == '%' && a.kind == WHIM_J_STR) {
        return whim_jinja_percent(j, a.str, b);
    }
    if (op == '+' && is_joinable(a) && a.kind == b.kind && is_joinable(b) &&
        (a.kind == WHIM_J_STR || a.list->kind == b.list->kind)) {
        return join_two(j, a, b);
    }
    if (op == '*' && is_joinable(a) && is_integral(b)) {
        return repeat(j, a, whim_jarg_int(j, b, 0, ""));
    }
    if (op == '*' && is_joinable(b) && is_integral(a)) {
        return repeat(j, b, whim_jarg_int(j, a, 0, ""));
    }
    char name[3];
    whim_jinja_op_name(name, op);
    whim_jval undef = a.kind == WHIM_J_UNDEF ? a : b;
    if (undef.kind == WHIM_J_UNDEF) {
        whim_jinja_fail(j, "\"%.*s\" is undefined, so \"%s\" has no meaning",
                        WHIM_JSHOWN(undef.str), name);
    }
    whim_jinja_fail(j, "\"%s\" has no meaning between a %s and a %s", name, whim_jval_type(a),
                    whim_jval_type(b));
}

whim_jval whim_jinja_negate(whim_jinja *j, int op, whim_jval a)
{
    if (!whim_jval_is_number(a)) {
        whim_jinja_fail(j, "\"%c\" wants a number, not a %s", (char)op, whim_jval_type(a));
    }
    int64_t i;
    double f;
    bool is_int = whim_jval_as_number(a, &i, &f);
    if (!is_int) {
        return whim_jval_float(op == '-' ? -f : f, a.trusted);
    }
    if (op == '-' && i == INT64_MIN) {
        too_large(j);
    }
    return whim_jval_int(op == '-' ? -i : i, a.trusted);
}

bool whim_jinja_compare(whim_jinja *j, int op, whim_jval a, whim_jval b)
{
    switch (op) {
    case WHIM_JOP2('=', '='):
        return whim_jval_equal(j, a, b);
    case WHIM_JOP2('!', '='):
        return !whim_jval_equal(j, a, b);
    case 'i':
        return whim_jval_contains(j, b, a);
    case 'n':
        return !whim_jval_contains(j, b, a);
    default:
        break;
    }
    int order = whim_jval_order(j, a, b);
    if (whim_jval_is_number(a) && order == 2) {
        return false; /* nan */
    }
    switch (op) {
    case '<':
        return order < 0;
    case '>':
        return order > 0;
    case WHIM_JOP2('<', '='):
        return order <= 0;
    default:
        return order >= 0;
    }
}
