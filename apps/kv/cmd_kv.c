/* SPDX-License-Identifier: Apache-2.0 */
/* `whimbrel kv export FILE` and `whimbrel kv import FILE`: pages of a model between the folder that
 * its server keeps them in and a file for another machine. */
#include "base/os/cpu.h"
#include "kv/kv.h"
#include "local/offer.h"

#include <stdio.h>
#include <string.h>

void kv_part_space(const kv_model *m, int32_t part, char out[WHIM_ARCHIVE_SPACE])
{
    if (m->n_part > 1) {
        snprintf(out, WHIM_ARCHIVE_SPACE, "%s, rank %d of %d", m->space.name, part, m->n_part);
    } else {
        snprintf(out, WHIM_ARCHIVE_SPACE, "%s", m->space.name);
    }
}

void kv_append_counts(whim_str *out, const whim_archive_part *parts, int32_t n_part)
{
    char bytes[32];
    int64_t all = 0, n_state = parts[0].n[WHIM_DISK_STATE];
    for (int32_t i = 0; i < n_part; i++) {
        all += whim_archive_part_bytes(&parts[i]);
    }
    whim_format_bytes(bytes, sizeof bytes, all);
    whim_str_printf(out, "%lld pages of %d tokens", (long long)parts[0].n[WHIM_DISK_PAGE],
                    parts[0].page_len);
    if (n_state > 0) {
        whim_str_printf(out, " and %lld states", (long long)n_state);
    }
    whim_str_printf(out, ", %s", bytes);
}

/* --- the model -------------------------------------------------------------------------------- */

static bool space_find(kv_model *m)
{
    char memory[MODEL_PATH_MAX];
    whim_diag diag = {""};
    whim_kv_weights weights = {0};
    const whim_engine *engine = whim_library_engine(m->model);
    bool has_memory = weights_memory(memory, (int64_t)sizeof memory);
    whim_kv_weights_begin(&weights, engine, has_memory ? memory : NULL, whim_os_cpu_mask_count());
    whim_err err = whim_kv_weights_end(&weights, &diag);
    err = err == WHIM_ERR_OK ? whim_kv_space_make(engine, &weights, &m->space, &diag) : err;
    if (err != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
    }
    m->n_part = whim_exec_group_ranks(whim_engine_limits(engine));
    return err == WHIM_ERR_OK;
}

bool kv_model_open(kv_model *m)
{
    model_auto(&m->own);
    const char *path = choose_model(&m->own, m->path_buf);
    if (path == NULL || !serve_kv_dir_insist(&m->own, m->dir)) {
        return false;
    }
    whimbrel_model_options options = serve_options(&m->own, path);
    whim_library_extra extra = serve_extra(&m->own);
    extra.kv_dir = m->dir;
    m->model = open_model(&options, &extra, true, &m->load);
    return m->model != NULL && space_find(m);
}

void kv_model_close(kv_model *m)
{
    if (m->server.server != NULL) { /* which has the model, too */
        m->server.model = m->model;
        serve_close(&m->server);
        whim_log_deinit(&m->server.log);
    } else {
        whimbrel_close(m->model);
    }
    m->model = NULL;
}

/* --- the command ------------------------------------------------------------------------------ */

int cmd_kv(const whim_options *options)
{
    static kv_model m;
    m = (kv_model){.own = *options, .file = options->output};
    bool exports = options->model != NULL && strcmp(options->model, "export") == 0;
    bool imports = options->model != NULL && strcmp(options->model, "import") == 0;
    if (!exports && !imports) {
        return complain(EXIT_USAGE,
                        "kv what? write whimbrel kv export FILE [MODEL], or whimbrel kv import "
                        "FILE [MODEL]");
    }
    if (m.file == NULL) {
        return complain(EXIT_USAGE, "%s which file? write whimbrel kv %s FILE [MODEL]",
                        options->model, options->model);
    }
    if (imports && options->kv_prompts != NULL) {
        return complain(EXIT_USAGE, "--prompts chooses what is exported; an import takes the whole "
                                    "file");
    }
    m.own.model = options->third;
    m.own.output = NULL;
    int code = kv_model_open(&m) ? EXIT_OK : EXIT_FAILED;
    if (code == EXIT_OK) {
        code = exports ? kv_export(&m) : kv_import(&m);
    }
    kv_model_close(&m);
    return code;
}
