/* SPDX-License-Identifier: Apache-2.0 */
/* `whimbrel pull`: bring a model of a hub into the cache, or up to date. */
#include "hub_model.h"
#include "local/catalogue.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_bool stopped;

static void on_signal(int sig)
{
    atomic_store(&stopped, true);
    signal(sig, SIG_DFL); /* the second one ends it at once; nothing is lost by that */
}

static void signals_catch(void)
{
    static const int all[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct sigaction action = {.sa_handler = on_signal}, old;
        if (sigaction(all[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) {
            sigaction(all[i], &action, NULL);
        }
    }
}

int cmd_pull(const whim_options *options)
{
    whim_hub_ref ref;
    hub_visit visit;
    whim_diag diag = {""};
    whim_str out = {0};
    char path[MODEL_PATH_MAX];
    if (options->model == NULL) {
        return complain(EXIT_USAGE,
                        "pull what? write whimbrel pull ORG/NAME, as the hub lists it, or "
                        "a short name such as qwen3:4b");
    }
    if (hub_ref_read(&ref, options->model, &diag) != WHIM_ERR_OK) {
        whim_str near = {0};
        int32_t n = catalogue_near(&near, options->model, 4);
        complain(EXIT_USAGE, "%s%s%s", diag.text, n > 0 ? "; similar short names: " : "",
                 whim_str_text(&near));
        whim_str_deinit(&near);
        return EXIT_USAGE;
    }
    if (options->file != NULL) {
        if (ref.pick[0] != '\0' || !whim_hub_name_is_safe(options->file)) {
            return complain(EXIT_USAGE,
                            "--file takes the name of one file in the repository; the model's name "
                            "must then have no colon");
        }
        snprintf(ref.pick, sizeof ref.pick, "%s", options->file);
    }
    if (!hub_visit_open(&visit, &ref, options->model, options->quiet)) {
        return EXIT_FAILED;
    }
    signals_catch();
    visit.cfg.stop = &stopped;
    visit.cfg.verify = options->verify;
    visit.cfg.n_connection = (int32_t)options->connections;
    visit.cfg.n_try = (int32_t)options->tries;
    whim_err err = whim_hub_pull(&visit.cfg, &ref, path, &diag);
    hub_visit_close(&visit, err == WHIM_ERR_OK);
    hub_visit_blame(&visit, err, &diag);
    if (err != WHIM_ERR_OK && atomic_load(&stopped)) {
        return complain(EXIT_INTERRUPTED,
                        "stopped; what was downloaded is kept, and the same command "
                        "continues from there");
    }
    if (err != WHIM_ERR_OK) {
        return complain(EXIT_FAILED, "%s", diag.text);
    }
    whim_str_printf(&out, "%s\n", path);
    bool ok = print_out(&out);
    whim_str_deinit(&out);
    return ok ? EXIT_OK : EXIT_FAILED;
}
