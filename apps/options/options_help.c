/* SPDX-License-Identifier: Apache-2.0 */
/* The help texts, made from the option table. */
#include "options/options.h"

#include <stdio.h>
#include <string.h>

enum { MIN_WIDTH = 40, MAX_WIDTH = 100, LEFT = 28, LEFT_MAX = 64 };

static const char *const group_titles[] = {
#define WHIM_OPTION_GROUP(NAME, title) title,
#include "options/options.def"
};

const char *whim_option_group_title(whim_option_group group)
{
    return group_titles[group];
}

#define MODEL_IS                                                                            \
    "MODEL is a directory with config.json and *.safetensors, a .gguf file, "               \
    "ORG/NAME[@REVISION][:QUANT] on huggingface.co (fetched unless it is in the cache), "   \
    "a short name such as qwen3:4b, auto (the best that fits this machine), or shape:NAME " \
    "(a published model's shape, with --load-format dummy). "

const char *whim_options_operand_text(whim_command command)
{
    switch (command) {
    case WHIM_COMMAND_QUANTIZE:
        return "IN is a directory with config.json and *.safetensors, or ORG/NAME[@REVISION] on "
               "huggingface.co (fetched unless it is in the cache). OUT is a directory that is "
               "empty or does not exist; it appears when everything is written.";
    case WHIM_COMMAND_WARM:
        return "FILE is JSON: the body of a request to /v1/chat/completions or /v1/completions, "
               "the messages of one, or a list of these or of texts, by itself or as \"prompts\" "
               "of an object. If its name ends in .jsonl, each line is such a body. The result is "
               "put where a server with the same MODEL and options looks for it (--kv-dir), so "
               "that the server need not read these prompts again. With --url a running server "
               "does the work.";
    case WHIM_COMMAND_KV:
        return "FILE has the keys and values of prompts, and the recurrent states of models that "
               "have them. export writes what the folder of --kv-dir has for MODEL: everything, "
               "or only --prompts. import adds FILE to that folder, where a server finds it at "
               "its next start. Give the same MODEL and options as for the server. FILE reveals "
               "what was said: treat it like the conversations.";
    case WHIM_COMMAND_PULL:
        return "ORG/NAME is a model as huggingface.co lists it; ORG/NAME@REVISION is a branch, tag "
               "or commit of it, ORG/NAME:QUANT one of its GGUF files, such as Q4_K_M. The "
               "variables HF_HUB_CACHE, HF_HOME, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE have "
               "the same meaning as for Hugging Face's own tools, and the cache is shared with "
               "them.";
    case WHIM_COMMAND_RM:
        return "NAME is a model as \"whimbrel list\" shows it: ORG/NAME with all its revisions and "
               "files, ORG/NAME@REVISION, ORG/NAME:QUANT for one GGUF file, or a short name. "
               "Files that another revision uses stay. A model that a server uses is not deleted.";
    case WHIM_COMMAND_SERVE:
        return MODEL_IS "Without MODEL, serve asks a person at a terminal which model to take, of "
                        "those that fit; otherwise it takes the default model in the user's "
                        "cache.";
    case WHIM_COMMAND_CHAT:
        return MODEL_IS "Without MODEL, chat on a terminal joins a server that runs on this "
                        "machine, if there is one; otherwise it takes the default model in the "
                        "user's cache.";
    default:
        return MODEL_IS "Without MODEL, it is the default model in the user's cache.";
    }
}

static int32_t limit_width(int32_t width)
{
    return width < MIN_WIDTH ? MIN_WIDTH : width > MAX_WIDTH ? MAX_WIDTH : width;
}

/* Append text word by word in the columns indent .. width - 1; the first line is already at
 * `column`. Ends with a newline. */
static void append_wrapped(whim_str *out, const char *text, int32_t column, int32_t indent,
                           int32_t width)
{
    bool first = true;
    for (const char *at = text; *at != '\0';) {
        int32_t n = (int32_t)strcspn(at, " ");
        if (!first && column + 1 + n > width) {
            whim_str_printf(out, "\n%*s", indent, "");
            column = indent;
            first = true;
        }
        whim_str_printf(out, "%s%.*s", first ? "" : " ", n, at);
        column += n + !first;
        first = false;
        at += n;
        at += strspn(at, " ");
    }
    whim_str_append_char(out, '\n');
}

static void append_row(whim_str *out, const char *left, const char *text, int32_t width)
{
    int32_t column = (int32_t)strlen(left);
    whim_str_append(out, left);
    if (column > LEFT - 2) {
        whim_str_append_char(out, '\n');
        column = 0;
    }
    whim_str_printf(out, "%*s", LEFT - column, "");
    append_wrapped(out, text, LEFT, LEFT, width);
}

static void append_option(whim_str *out, const whim_option_spec *spec, int32_t width)
{
    char left[LEFT_MAX], letter[8] = "    ";
    whim_str text = {0};
    bool on = spec->type == WHIM_OPTION_BOOL ? spec->fallback != NULL : whim_option_has_no(spec);
    if (spec->letter != 0) {
        snprintf(letter, sizeof letter, "-%c, ", spec->letter);
    }
    snprintf(left, sizeof left, "  %s--%s%s%s%s", letter, on ? "[no-]" : "", spec->name,
             spec->metavar != NULL ? " " : "", spec->metavar != NULL ? spec->metavar : "");
    whim_str_append(&text, spec->help);
    if (spec->fallback != NULL) {
        whim_str_printf(&text, " (default: %s)", spec->fallback);
    }
    append_row(out, left, whim_str_text(&text), width);
    whim_str_deinit(&text);
}

void whim_options_help(whim_str *out, whim_command command, int32_t width)
{
    const whim_command_spec *spec = whim_command_get(command);
    int32_t n;
    const whim_option_spec *options = whim_option_specs(&n);
    width = limit_width(width);
    whim_str_printf(out, "whimbrel %s %s%s[options]\n", spec->name,
                    spec->operand != NULL ? spec->operand : "", spec->operand != NULL ? " " : "");
    whim_str_append(out, "  ");
    append_wrapped(out, spec->summary, 2, 2, width);
    if (spec->operand != NULL) {
        whim_str_append(out, "\n");
        append_wrapped(out, whim_options_operand_text(command), 0, 0, width);
    }
    for (int32_t group = 0; group < WHIM_OPTION_GROUP_COUNT; group++) {
        bool titled = false;
        for (int32_t i = 0; i < n; i++) {
            if ((int32_t)options[i].group != group || options[i].help == NULL ||
                (options[i].commands >> command & 1) == 0) {
                continue;
            }
            if (!titled) {
                whim_str_printf(out, "\n%s:\n", group_titles[group]);
                titled = true;
            }
            append_option(out, &options[i], width);
        }
    }
}

void whim_commands_help(whim_str *out, int32_t width)
{
    width = limit_width(width);
    append_wrapped(out, "whimbrel runs open-weight language models on the hardware you have.", 0, 0,
                   width);
    whim_str_append(out, "\nwhimbrel COMMAND [options]\n");
    for (int32_t i = 0; i < WHIM_COMMAND_COUNT; i++) {
        const whim_command_spec *spec = whim_command_get((whim_command)i);
        char left[LEFT_MAX];
        snprintf(left, sizeof left, "  %s%s%s", spec->name, spec->operand != NULL ? " " : "",
                 spec->operand != NULL ? spec->operand : "");
        append_row(out, left, spec->summary, width);
    }
    whim_str_append(out, "\n");
    append_wrapped(out,
                   "\"whimbrel COMMAND --help\" lists a command's options; \"whimbrel --version\" "
                   "prints the version.",
                   0, 0, width);
}
