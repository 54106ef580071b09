/* SPDX-License-Identifier: Apache-2.0 */
/* PCRE2: compiling and searching. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include "base/alloc.h"
#include "base/heap/budget.h"

#include <pcre2.h>
#include <string.h>

enum {
    PATTERN_MAX = 1 << 16,
    MATCH_LIMIT = 20000000, /* backtracks of one match; 1 MB of spaces takes some millions */
    DEPTH_LIMIT = 100000,
    HEAP_LIMIT_KIB = 65536,
    /* The stack of a match, at first and for those that need more. */
    JIT_STACK_MIN = 32 << 10,
    JIT_STACK_FIRST = 256 << 10,
    JIT_STACK_MOST = 16 << 20,
};

struct whim_matcher {
    pcre2_general_context *general;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    int64_t n_stack; /* its bytes: PCRE2 maps it, so that it is counted here */
};

static void *take(size_t bytes, void *tag)
{
    (void)tag;
    return whim_alloc((int64_t)bytes);
}

static void give(void *ptr, void *tag)
{
    (void)tag;
    whim_free(ptr);
}

static whim_err compile_with(pcre2_compile_context *context, const whim_str *pattern,
                             whim_regex **out, whim_diag *diag)
{
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_max_pattern_length(context, PATTERN_MAX);
    int code = 0;
    PCRE2_SIZE at = 0;
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    *out = pcre2_compile((PCRE2_SPTR)whim_str_text(pattern), (PCRE2_SIZE)pattern->len, options,
                         &code, &at, context);
    if (*out == NULL) {
        char text[160];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
        return whim_fail(diag, WHIM_ERR_CORRUPT, "%s at byte %lld of the pattern", text,
                         (long long)at);
    }
    /* Without JIT (an emulator, a hardened kernel) the interpreter does the same, slower. */
    (void)pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE);
    return WHIM_ERR_OK;
}

whim_err whim_regex_compile(const char *pattern, whim_regex **out, whim_diag *diag)
{
    *out = NULL;
    whim_str text = {0};
    whim_err err = whim_regex_translate(pattern, &text, diag);
    pcre2_general_context *general = pcre2_general_context_create(take, give, NULL);
    pcre2_compile_context *context = general != NULL ? pcre2_compile_context_create(general) : NULL;
    if (err == WHIM_ERR_OK && (context == NULL || text.failed)) {
        err = WHIM_ERR_NO_MEMORY;
    }
    if (err == WHIM_ERR_OK) {
        err = compile_with(context, &text, out, diag);
    }
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    whim_str_deinit(&text);
    return err;
}

bool whim_regex_has_jit(const whim_regex *regex)
{
    size_t bytes = 0;
    return pcre2_pattern_info(regex, PCRE2_INFO_JITSIZE, &bytes) == 0 && bytes > 0;
}

void whim_regex_free(whim_regex *regex)
{
    pcre2_code_free(regex);
}

static void stack_free(whim_matcher *m)
{
    if (m->stack != NULL) {
        pcre2_jit_stack_assign(m->context, NULL, NULL);
    }
    pcre2_jit_stack_free(m->stack);
    whim_budget_count(-m->n_stack);
    m->stack = NULL;
    m->n_stack = 0;
}

/* A stack of up to so many bytes in place of the one that is there. */
static whim_err stack_make(whim_matcher *m, int64_t bytes)
{
    stack_free(m);
    if (!whim_budget_allows(bytes)) {
        whim_budget_refuse();
        return WHIM_ERR_NO_MEMORY;
    }
    m->stack = pcre2_jit_stack_create(JIT_STACK_MIN, (size_t)bytes, m->general);
    if (m->stack != NULL) { /* without JIT there is none, and none is needed */
        m->n_stack = bytes;
        whim_budget_count(bytes);
        pcre2_jit_stack_assign(m->context, NULL, m->stack);
    }
    return WHIM_ERR_OK;
}

whim_err whim_matcher_create(whim_matcher **out)
{
    *out = NULL;
    whim_matcher *m = whim_alloc(sizeof *m);
    if (m == NULL) {
        return WHIM_ERR_NO_MEMORY;
    }
    m->general = pcre2_general_context_create(take, give, NULL);
    if (m->general != NULL) {
        m->data = pcre2_match_data_create(1, m->general);
        m->context = pcre2_match_context_create(m->general);
    }
    if (m->general == NULL || m->data == NULL || m->context == NULL ||
        stack_make(m, JIT_STACK_FIRST) != WHIM_ERR_OK) {
        whim_matcher_free(m);
        return WHIM_ERR_NO_MEMORY;
    }
    pcre2_set_match_limit(m->context, MATCH_LIMIT);
    pcre2_set_depth_limit(m->context, DEPTH_LIMIT);
    pcre2_set_heap_limit(m->context, HEAP_LIMIT_KIB);
    *out = m;
    return WHIM_ERR_OK;
}

void whim_matcher_free(whim_matcher *m)
{
    if (m == NULL) {
        return;
    }
    stack_free(m);
    pcre2_match_context_free(m->context);
    pcre2_match_data_free(m->data);
    pcre2_general_context_free(m->general);
    whim_free(m);
}

whim_err whim_regex_find(const whim_regex *regex, whim_matcher *matcher, const char *text,
                         int64_t n, int64_t from, bool *found, whim_match *match, whim_diag *diag)
{
    int rc = pcre2_match(regex, (PCRE2_SPTR)text, (PCRE2_SIZE)n, (PCRE2_SIZE)from,
                         PCRE2_NO_UTF_CHECK, matcher->data, matcher->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT && matcher->n_stack < JIT_STACK_MOST) {
        WHIM_TRY(stack_make(matcher, JIT_STACK_MOST));
        return matcher->stack == NULL
                   ? WHIM_ERR_NO_MEMORY
                   : whim_regex_find(regex, matcher, text, n, from, found, match, diag);
    }
    *found = rc >= 0;
    if (rc == PCRE2_ERROR_NOMATCH) {
        return WHIM_ERR_OK;
    }
    if (rc == PCRE2_ERROR_NOMEMORY) {
        return WHIM_ERR_NO_MEMORY;
    }
    if (rc < 0) {
        char reason[160];
        pcre2_get_error_message(rc, (PCRE2_UCHAR *)reason, sizeof reason);
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "the tokenizer's regular expression gave up at byte %lld of a text of %lld"
                         " bytes: %s",
                         (long long)from, (long long)n, reason);
    }
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(matcher->data);
    match->begin = (int64_t)range[0];
    match->end = (int64_t)range[1];
    /* \K in a lookahead can put the start after the end or before `from`; such a match is empty. */
    if (match->begin < from) {
        match->begin = from;
    }
    if (match->end < match->begin) {
        match->end = match->begin;
    }
    return WHIM_ERR_OK;
}

whim_err whim_pattern_find(const whim_regex *regex, const char *literal, whim_matcher *matcher,
                           const char *text, int64_t n, int64_t from, bool *found,
                           whim_match *match, whim_diag *diag)
{
    if (regex != NULL) {
        return whim_regex_find(regex, matcher, text, n, from, found, match, diag);
    }
    size_t len = strlen(literal);
    const char *at = memmem(text + from, (size_t)(n - from), literal, len);
    *found = at != NULL && len > 0;
    if (*found) {
        *match = (whim_match){at - text, at - text + (int64_t)len};
    }
    return WHIM_ERR_OK;
}
