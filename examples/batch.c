/* SPDX-License-Identifier: Apache-2.0 */
/* Eight prompts at once: batch MODEL. They go through the model together, a step for all of them,
 * which is several times as fast as one after the other; each has the answer that it has alone. */
#include <stdio.h>
#include <whimbrel/whimbrel.h>

enum { N = 8 };

static const char *const prompts[N] = {
    "Birds that live by the sea are",
    "The capital of France is",
    "Water boils at",
    "One, two, three, four,",
    "The moon is",
    "In winter the lake",
    "A good soup needs",
    "Once upon a time",
};

static void print_answer(whimbrel_request *request, const char *prompt)
{
    const whimbrel_event *event;
    printf("%s", prompt);
    while ((event = whimbrel_wait(request, -1)) != NULL) {
        if (event->kind == WHIMBREL_EVENT_TEXT || event->kind == WHIMBREL_EVENT_FAILED) {
            printf("%s", event->text);
        } else if (event->kind == WHIMBREL_EVENT_DONE) {
            printf(" [%lld tokens]\n", (long long)event->usage.n_made);
        }
    }
    whimbrel_free(request);
}

int main(int argc, char **argv)
{
    whimbrel_model_options options = {.size = sizeof options, .path = argv[1], .max_parallel = N};
    whimbrel_request *requests[N];
    whimbrel_model *model = NULL;
    whimbrel_error error = {.text = "usage: batch MODEL"};
    int n = 0;
    if (argc == 2 && whimbrel_open(&options, &model, &error) == WHIMBREL_OK &&
        whimbrel_load(model, &error) == WHIMBREL_OK) {
        whimbrel_request_options ask = {.size = sizeof ask, .max_tokens = 16};
        do {
            ask.text = prompts[n];
        } while (whimbrel_submit(model, &ask, &requests[n], &error) == WHIMBREL_OK && ++n < N);
    }
    for (int i = 0; i < n; i++) { /* answers wait until they are taken */
        print_answer(requests[i], prompts[i]);
    }
    whimbrel_close(model);
    if (n < N) {
        fprintf(stderr, "%s\n", error.text);
    }
    return n < N;
}
