/* SPDX-License-Identifier: Apache-2.0 */
/* JSON's grammar as a machine over bytes; the only memory is one bit for each open level. */
#include "chat/tools/json_walk.h"

#include "base/str.h"
#include "base/utf8.h"

#include <string.h>

enum { PLAIN, ESCAPE, HEX4, HEX3, HEX2, HEX1 };                         /* in a string */
enum { MINUS, ZERO, WHOLE, POINT, FRACTION, EXP, EXP_SIGN, EXP_DIGIT }; /* in a number */

static const char *const words[] = {"true", "false", "null"};

static bool in_object(const whim_json_walk *w)
{
    int32_t level = w->depth - 1;
    return w->depth > 0 && ((w->objects[level / 64] >> (level % 64)) & 1) != 0;
}

static void value_ends(whim_json_walk *w)
{
    w->phase = w->depth == 0 ? WHIM_JSON_DONE : WHIM_JSON_AFTER;
}

static bool open_level(whim_json_walk *w, bool object)
{
    if (w->depth == WHIM_JSON_WALK_DEPTH) {
        return false;
    }
    uint64_t bit = (uint64_t)1 << (w->depth % 64), *set = &w->objects[w->depth / 64];
    *set = object ? *set | bit : *set & ~bit;
    w->depth++;
    w->phase = object ? WHIM_JSON_FIRST_KEY : WHIM_JSON_FIRST;
    return true;
}

static bool close_level(whim_json_walk *w, char c)
{
    if (w->depth == 0 || c != (in_object(w) ? '}' : ']')) {
        return false;
    }
    w->depth--;
    value_ends(w);
    return true;
}

static bool start_string(whim_json_walk *w, bool key)
{
    w->phase = WHIM_JSON_STRING;
    w->detail = PLAIN;
    w->key = key;
    return true;
}

static bool start_value(whim_json_walk *w, char c)
{
    if (c == '"') {
        return start_string(w, false);
    }
    if (c == '{' || c == '[') {
        return open_level(w, c == '{');
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
        w->phase = WHIM_JSON_NUMBER;
        w->detail = c == '-' ? MINUS : c == '0' ? ZERO : WHOLE;
        return true;
    }
    for (uint8_t i = 0; i < 3; i++) {
        if (c == words[i][0]) {
            w->phase = WHIM_JSON_WORD;
            w->detail = (uint8_t)(i * 8 + 1);
            return true;
        }
    }
    return false;
}

static bool step_string(whim_json_walk *w, char c)
{
    bool hex = whim_hex_value(c) >= 0;
    switch (w->detail) {
    case PLAIN:
        if (c == '"') {
            if (w->key) {
                w->phase = WHIM_JSON_COLON;
            } else {
                value_ends(w);
            }
        } else if (c == '\\') {
            w->detail = ESCAPE;
        }
        return (unsigned char)c >= 0x20;
    case ESCAPE:
        if (c == '\0' || strchr("\"\\/bfnrtu", c) == NULL) {
            return false;
        }
        w->detail = c == 'u' ? HEX4 : PLAIN;
        return true;
    default:
        if (hex) {
            w->detail = w->detail == HEX1 ? PLAIN : (uint8_t)(w->detail + 1);
        }
        return hex;
    }
}

static bool number_is_whole(uint8_t detail)
{
    return detail == ZERO || detail == WHOLE || detail == FRACTION || detail == EXP_DIGIT;
}

/* Where a number stands after c, or -1 when c is not part of it. */
static int number_step(uint8_t detail, char c)
{
    bool digit = c >= '0' && c <= '9';
    bool e = c == 'e' || c == 'E';
    switch (detail) {
    case MINUS:
        return !digit ? -1 : c == '0' ? ZERO : WHOLE;
    case ZERO:
        return c == '.' ? POINT : e ? EXP : -1;
    case WHOLE:
        return digit ? WHOLE : c == '.' ? POINT : e ? EXP : -1;
    case POINT:
        return digit ? FRACTION : -1;
    case FRACTION:
        return digit ? FRACTION : e ? EXP : -1;
    case EXP:
        return digit ? EXP_DIGIT : c == '+' || c == '-' ? EXP_SIGN : -1;
    default:
        return digit ? EXP_DIGIT : -1;
    }
}

static bool step_word(whim_json_walk *w, char c)
{
    const char *word = words[w->detail / 8];
    uint8_t at = w->detail % 8;
    if (c != word[at]) {
        return false;
    }
    w->detail++;
    if (word[at + 1] == '\0') {
        value_ends(w);
    }
    return true;
}

static bool step_after(whim_json_walk *w, char c)
{
    if (c == ',') {
        w->phase = in_object(w) ? WHIM_JSON_NEXT_KEY : WHIM_JSON_VALUE;
        return true;
    }
    return close_level(w, c);
}

bool whim_json_walk_step(whim_json_walk *w, char c)
{
    if (w->phase == WHIM_JSON_STRING) {
        return step_string(w, c);
    }
    if (w->phase == WHIM_JSON_WORD) {
        return step_word(w, c);
    }
    if (w->phase == WHIM_JSON_NUMBER) {
        int next = number_step(w->detail, c);
        if (next >= 0) {
            w->detail = (uint8_t)next;
            return true;
        }
        whim_json_walk after = *w;
        value_ends(&after); /* a number ends where something else begins */
        if (!number_is_whole(w->detail) || !whim_json_walk_step(&after, c)) {
            return false;
        }
        *w = after;
        return true;
    }
    if (whim_is_blank(c)) {
        return true;
    }
    switch (w->phase) {
    case WHIM_JSON_VALUE:
        return start_value(w, c);
    case WHIM_JSON_FIRST:
        return c == ']' ? close_level(w, c) : start_value(w, c);
    case WHIM_JSON_FIRST_KEY:
        return c == '}' ? close_level(w, c) : c == '"' && start_string(w, true);
    case WHIM_JSON_NEXT_KEY:
        return c == '"' && start_string(w, true);
    case WHIM_JSON_COLON:
        w->phase = c == ':' ? WHIM_JSON_VALUE : w->phase;
        return c == ':';
    case WHIM_JSON_AFTER:
        return step_after(w, c);
    default:
        return false;
    }
}

bool whim_json_walk_is_whole(const whim_json_walk *w)
{
    return w->phase == WHIM_JSON_DONE ||
           (w->phase == WHIM_JSON_NUMBER && w->depth == 0 && number_is_whole(w->detail));
}
