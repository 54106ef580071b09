/* SPDX-License-Identifier: Apache-2.0 */
/* A chat in the terminal: chat MODEL. Every turn hands over the whole conversation; what was said
 * before is found in the model's cache, so that only the new message costs time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <whimbrel/whimbrel.h>

enum { MAX_MESSAGES = 200, MAX_TOKENS = 1000 };

/* Print the answer as it comes, and return it, to be freed. */
static char *answer(whimbrel_model *model, const whimbrel_message *messages, int n)
{
    whimbrel_request_options ask = {
        .size = sizeof ask, .messages = messages, .n_message = n, .max_tokens = MAX_TOKENS};
    whimbrel_request *request = NULL;
    whimbrel_error error;
    const whimbrel_event *event;
    char *text = calloc(1, 1);
    if (whimbrel_submit(model, &ask, &request, &error) != WHIMBREL_OK) {
        fprintf(stderr, "%s", error.text);
    }
    while ((event = whimbrel_wait(request, -1)) != NULL) {
        if (event->kind == WHIMBREL_EVENT_TEXT) {
            printf("%s", event->text);
            fflush(stdout);
            text = realloc(text, strlen(text) + (size_t)event->n_text + 1);
            strcat(text, event->text);
        } else if (event->kind == WHIMBREL_EVENT_FAILED) {
            fprintf(stderr, "%s", event->text);
        }
    }
    puts("");
    whimbrel_free(request);
    return text;
}

int main(int argc, char **argv)
{
    whimbrel_model_options options = {.size = sizeof options, .path = argv[1], .max_parallel = 1};
    whimbrel_message messages[MAX_MESSAGES];
    whimbrel_model *model = NULL;
    whimbrel_error error = {.text = "usage: chat MODEL"};
    char line[4096];
    int n = 0, is_ready = argc == 2 && whimbrel_open(&options, &model, &error) == WHIMBREL_OK &&
                          whimbrel_load(model, &error) == WHIMBREL_OK;
    if (!is_ready) {
        fprintf(stderr, "%s\n", error.text);
    }
    for (; is_ready && n < MAX_MESSAGES && fgets(line, sizeof line, stdin) != NULL; n += 2) {
        messages[n] = (whimbrel_message){"user", strdup(line)};
        messages[n + 1] = (whimbrel_message){"assistant", answer(model, messages, n + 1)};
    }
    while (n > 0) {
        free((void *)messages[--n].content);
    }
    whimbrel_close(model);
    return !is_ready;
}
