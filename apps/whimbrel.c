/* SPDX-License-Identifier: Apache-2.0 */
/* The program: finds the command, reads its options, runs it. */
#include "base/os/facts.h"
#include "cmd.h"
#include "help/help.h"
#include "local/offer.h"
#include "ranks/bridge_order.h"
#include "ranks/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int (*const command_table[])(const whim_options *) = {
#define WHIM_COMMAND(name, NAME, operand, summary) cmd_##name,
#include "options/options.def"
};

static int show(whim_str *text)
{
    int code = print_out(text) ? EXIT_OK : EXIT_FAILED;
    whim_str_deinit(text);
    return code;
}

static int show_version(void)
{
    whim_str text = {0};
    whim_str_append(&text, "whimbrel " WHIM_VERSION "\n");
    return show(&text);
}

static int show_commands(void)
{
    whim_str text = {0};
    whim_commands_help(&text, whim_os_term_width(STDOUT_FILENO));
    return show(&text);
}

static int show_help(whim_command command)
{
    whim_str text = {0};
    whim_options_help(&text, command, whim_os_term_width(STDOUT_FILENO));
    return show(&text);
}

/* `help`, `help COMMAND`, or one of the texts for other programs. */
static int help_for(const char *word)
{
    static const struct {
        const char *name;
        void (*write)(whim_str *out);
    } texts[] = {{"--man", help_man},
                 {"--markdown", help_markdown},
                 {"--bash", help_bash},
                 {"--zsh", help_zsh},
                 {"--fish", help_fish}};
    whim_diag diag;
    whim_command command;
    for (size_t i = 0; word != NULL && i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(word, texts[i].name) == 0) {
            whim_str text = {0};
            texts[i].write(&text);
            return show(&text);
        }
    }
    if (word == NULL) {
        return show_commands();
    }
    return whim_command_find(word, &command, &diag) == WHIM_ERR_OK
               ? show_help(command)
               : complain(EXIT_USAGE, "%s", diag.text);
}

/* For a library that is told by nothing else. */
static void set_unless_set(const char *name, const char *value)
{
    setenv(name, value, 0);
}

int main(int argc, char **argv)
{
    whim_diag diag;
    whim_options options;
    whim_command command;
    if (argc < 2) {
        show_commands();
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "rank") == 0) { /* started by another whimbrel, see ranks/ranks.h */
        return whim_follower_main(_exit);
    }
    if (strcmp(argv[1], "bridge") == 0) { /* likewise, see ranks/bridge_order.h */
        return whim_bridge_main(_exit, set_unless_set);
    }
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        return show_version();
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        return help_for(argc > 2 ? argv[2] : NULL);
    }
    if (whim_command_find(word, &command, &diag) != WHIM_ERR_OK) {
        return complain(EXIT_USAGE, "%s", diag.text);
    }
    if (whim_options_parse(&options, command, argc - 2, (const char *const *)argv + 2, &diag) !=
        WHIM_ERR_OK) {
        return complain(EXIT_USAGE, "%s", diag.text);
    }
    if (options.help) {
        return show_help(command);
    }
    if (options.version) {
        return show_version();
    }
    if (command != WHIM_COMMAND_SERVE) { /* which has a log to say it in */
        model_auto(&options);
    }
    return command_table[command](&options);
}
