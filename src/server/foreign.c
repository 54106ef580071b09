/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of other servers: those that ask for what we have, and those that would be dropped
 * otherwise. */
#include "server/api.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

enum { MAX_SCHEMA_TEXT = 1 << 20 };

typedef enum form_kind {
    FORM_SCHEMA, /* an object, or a text that holds one */
    FORM_OBJECT, /* true: any JSON object */
    FORM_REGEX,
    FORM_WORDS,
    FORM_GRAMMAR,
} form_kind;

static const struct {
    const char *name;
    form_kind kind;
} forms[] = {
#define FOREIGN_FORM(name, kind) {name, FORM_##kind},
#define FOREIGN_REFUSED(name, lo, hi, why)
#define FOREIGN_IDLE(name)
#define FOREIGN_TOLD(name, lo, hi)
#include "server/body/foreign.def"
#undef FOREIGN_FORM
#undef FOREIGN_REFUSED
};

/* Fields that are refused, but for numbers from lo to hi. */
static const struct {
    const char *name;
    double lo, hi;
    const char *why;
} refused[] = {
#define FOREIGN_FORM(name, kind)
#define FOREIGN_REFUSED(name, lo, hi, why) {name, lo, hi, why},
#include "server/body/foreign.def"
#undef FOREIGN_FORM
#undef FOREIGN_REFUSED
#undef FOREIGN_IDLE
#undef FOREIGN_TOLD
};

/* Where a name of the table is looked for: the body, and the object that some stand in. */
typedef struct places {
    const whim_fields *top;
    whim_fields inside;
} places;

static const whim_fields *place_of(const places *p, const char *name, const char **key)
{
    const char *dot = strchr(name, '.');
    *key = dot == NULL ? name : dot + 1;
    return dot == NULL ? p->top : &p->inside;
}

static bool refuse_rest(const places *p)
{
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const char *key;
        const whim_fields *f = place_of(p, refused[i].name, &key);
        if (!whim_value_is_off(whim_field(f, key), refused[i].lo, refused[i].hi)) {
            return whim_field_refuse(f, key, "%s", refused[i].why);
        }
    }
    return true;
}

/* A schema that comes as a text is read into the task. */
static bool read_schema(const whim_fields *f, const char *key, const char *name, whim_task *task)
{
    json_t *schema = whim_field(f, key);
    if (json_is_string(schema)) {
        whim_diag diag = {{0}};
        int64_t left = WHIM_JSON_VALUES;
        whim_json_limits limits = {MAX_SCHEMA_TEXT, WHIM_JSON_DEPTH, false, &left, NULL};
        whim_err err = whim_json_read(&task->schema_read, json_string_value(schema),
                                      (int64_t)json_string_length(schema), limits, &diag);
        if (err == WHIM_ERR_NO_MEMORY) {
            return whim_fault_no_memory(f->fault);
        }
        if (err != WHIM_ERR_OK) {
            return whim_field_refuse(f, key, "must be a JSON Schema: it is %.500s", diag.text);
        }
        schema = task->schema_read;
    }
    if (!json_is_object(schema)) {
        return whim_field_refuse(f, key,
                                 "must be a JSON Schema, an object such as {\"type\": \"object\"} "
                                 "or a text that holds one, not %s",
                                 whim_json_kind(schema));
    }
    task->schema = schema;
    task->format_at = task->schema_at = name;
    return true;
}

static bool read_grammar(const whim_fields *f, const char *key, whim_task *task)
{
    if (!whim_field_string(f, key, &task->ask.grammar)) {
        return false;
    }
    return json_string_length(whim_field(f, key)) <= MAX_SCHEMA_TEXT ||
           whim_field_refuse(f, key, "is larger than %d bytes", MAX_SCHEMA_TEXT);
}

/* How the client calls a field of the table, which may stand in an object itself. */
static const char *full_name(const places *p, const char *name, whim_task *task)
{
    char text[256];
    int n = snprintf(text, sizeof text, "%s%s", p->top->prefix, name);
    return p->top->prefix[0] == '\0' ? name : whim_arena_strndup(&task->arena, text, n);
}

static bool read_form(const whim_fields *f, const char *key, form_kind kind, const char *name,
                      whim_task *task)
{
    const json_t *value = whim_field(f, key);
    if (value == NULL || (kind == FORM_OBJECT && json_is_false(value)) ||
        (kind == FORM_GRAMMAR && whim_peek_is(value, ""))) { /* as some clients send none */
        return true;
    }
    if (!whim_task_one_form(f, key, task)) {
        return false;
    }
    task->form_at = name;
    switch (kind) {
    case FORM_SCHEMA:
        return read_schema(f, key, name, task);
    case FORM_OBJECT:
        task->format_at = name;
        return whim_field_bool(f, key, &task->ask.json_object);
    case FORM_REGEX:
        return whim_field_string(f, key, &task->ask.regex);
    case FORM_GRAMMAR:
        return read_grammar(f, key, task);
    default:
        return whim_task_read_words(f, key, task);
    }
}

bool whim_foreign_read(const whim_fields *f, whim_task *task)
{
    places p = {.top = f};
    if (!whim_field_inside(f, "structured_outputs", &p.inside) || !refuse_rest(&p)) {
        return false;
    }
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const char *key;
        const whim_fields *at = place_of(&p, forms[i].name, &key);
        const char *name = full_name(&p, forms[i].name, task);
        if (name == NULL) {
            return whim_fault_no_memory(f->fault);
        }
        if (!read_form(at, key, forms[i].kind, name, task)) {
            return false;
        }
    }
    return true;
}
