/* SPDX-License-Identifier: Apache-2.0 */
/* Which words a printed call is written in, and what words are known. */
#include "chat/tools/words.h"

#include "base/utf8.h"
#include "models/model.h"

#include <string.h>

const whim_tool_words *whim_tool_words_usual(void)
{
    return &whim_tool_words_shared[0];
}

/* --- finding ---------------------------------------------------------------------------------- */

static const char *skip_blanks(const char *s)
{
    while (*s != '\0' && whim_is_blank(*s)) {
        s++;
    }
    return s;
}

/* Whether a text begins with a mark. */
static bool begins(const char *text, const char *mark, const char *name, bool tight)
{
    size_t n = strlen(name);
    for (mark = skip_blanks(mark); *mark != '\0'; mark = skip_blanks(mark + 1)) {
        text = tight ? text : skip_blanks(text);
        bool is_name = *mark == '$' && strncmp(text, name, n) == 0;
        if (!is_name && *text != *mark) {
            return false;
        }
        text += is_name ? n : 1;
    }
    return true;
}

/* Whether a call is written in these words; without tags it is nothing but the call. */
static bool is_in(const char *call, const whim_tool_words *words, const char *name)
{
    if (words->open == NULL && words->function == NULL) {
        return begins(call, words->mark, name, words->tight);
    }
    for (const char *at = skip_blanks(call); *at != '\0'; at = skip_blanks(at + 1)) {
        if (begins(at, words->mark, name, words->tight)) {
            return true;
        }
    }
    return false;
}

int32_t whim_tool_words_count(void)
{
    return whim_model_count() + whim_tool_words_n_shared;
}

const whim_tool_words *whim_tool_words_at(int32_t i)
{
    return i < whim_tool_words_n_shared ? &whim_tool_words_shared[i]
                                        : whim_model_tool_words(i - whim_tool_words_n_shared);
}

const whim_tool_words *whim_tool_words_of(const char *call, const char *name)
{
    for (int32_t i = 0; i < whim_tool_words_count(); i++) {
        const whim_tool_words *words = whim_tool_words_at(i);
        if (words != NULL && is_in(call, words, name)) {
            return words;
        }
    }
    return NULL;
}

const whim_tool_words *whim_tool_words_named(const char *name)
{
    for (int32_t i = 0; i < whim_tool_words_count(); i++) {
        const whim_tool_words *words = whim_tool_words_at(i);
        if (words != NULL && strcmp(words->name, name) == 0) {
            return words;
        }
    }
    return NULL;
}

bool whim_tool_words_have(const whim_tool_words *words, const char *token, int64_t n)
{
    enum { LEAST = 3 }; /* shorter ones stand in any text */
    const char *const all[] = {words->open,         words->close,     words->prefix,
                               words->function,     words->name_end,  words->call_id,
                               words->function_end, words->parameter, words->parameter_end,
                               words->name_begin,   words->key_end,   words->value,
                               words->quote};
    for (size_t i = 0; n >= LEAST && i < sizeof all / sizeof all[0]; i++) {
        if (all[i] != NULL && memmem(all[i], strlen(all[i]), token, (size_t)n) != NULL) {
            return true;
        }
    }
    return false;
}
