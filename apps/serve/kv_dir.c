/* SPDX-License-Identifier: Apache-2.0 */
/* Where pages of keys and values are kept over a restart. */
#include "serve/serve.h"

#include "base/os/mem.h"

#include <stdlib.h>
#include <string.h>

/* Pages on their way to the disk take up to 64 MiB: on a small machine the model needs them more,
 * and what nobody asked for refuses no start. */
#define LEAST_MEMORY (INT64_C(1) << 30)

static void unused(serve *s, const char *why)
{
    whim_log_warn(&s->log, "kv_dir", whim_log_text("unused", why));
}

const char *serve_kv_dir_asked(const whim_options *options)
{
    return options->kv_dir != NULL ? options->kv_dir : getenv("WHIMBREL_KV_DIR");
}

bool serve_kv_dir_insist(const whim_options *options, char dir[MODEL_PATH_MAX])
{
    whim_str why = {0};
    const char *asked = serve_kv_dir_asked(options);
    bool ok = true;
    if (asked != NULL && asked[0] == '\0') {
        complain(EXIT_USAGE, "no folder keeps pages (--no-kv-dir, or WHIMBREL_KV_DIR is empty); "
                             "--kv-dir names one");
        return false;
    }
    if (asked != NULL) {
        snprintf(dir, MODEL_PATH_MAX, "%s", asked);
    } else {
        ok = cache_place("kv", dir, MODEL_PATH_MAX, &why) && cache_path("kv", dir, MODEL_PATH_MAX);
    }
    if (!ok) {
        complain(EXIT_FAILED, "no folder for pages: %s", whim_str_text(&why));
    }
    whim_str_deinit(&why);
    return ok;
}

void serve_kv_dir_choose(serve *s)
{
    const char *asked = serve_kv_dir_asked(s->options);
    whim_str why = {0};
    s->kv_dir[0] = '\0';
    s->kv_dir_is_ours = asked == NULL;
    if (asked != NULL) {
        snprintf(s->kv_dir, sizeof s->kv_dir, "%s", asked);
    } else if (s->nodes.cfg.n_node > 1) {
        unused(s, "each machine would need a folder of its own; --kv-dir names it");
    } else if (whim_os_mem_available() < LEAST_MEMORY) {
        unused(s, "less than 1 GiB of memory is available; --kv-dir insists");
    } else if (!cache_place("kv", s->kv_dir, (int64_t)sizeof s->kv_dir, &why)) {
        s->kv_dir[0] = '\0';
        unused(s, whim_str_text(&why));
    } else if (!cache_path("kv", s->kv_dir, (int64_t)sizeof s->kv_dir)) {
        s->kv_dir[0] = '\0';
    }
    whim_str_deinit(&why);
}

void serve_kv_dir_text(const serve *s, whim_str *out)
{
    char bytes[2][32];
    whim_service_stats stats = whim_service_get_stats(s->service);
    if (stats.disk_limit == 0) {
        return;
    }
    whim_format_bytes(bytes[0], sizeof bytes[0], stats.disk_bytes);
    whim_format_bytes(bytes[1], sizeof bytes[1], stats.disk_limit);
    whim_str_printf(out,
                    "  kept      keys and values of prompts and answers, in %s: %s of at most %s.\n"
                    "            They reveal what was said; --no-kv-dir keeps none, rm -r deletes "
                    "them\n",
                    s->kv_dir, bytes[0], bytes[1]);
}
