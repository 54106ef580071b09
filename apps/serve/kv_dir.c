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

void serve_kv_dir_choose(serve *s)
{
    const char *asked = s->options->kv_dir, *named = getenv("WHIMBREL_KV_DIR");
    whim_str why = {0};
    s->kv_dir[0] = '\0';
    s->kv_dir_is_ours = asked == NULL && named == NULL;
    if (asked != NULL || named != NULL) {
        snprintf(s->kv_dir, sizeof s->kv_dir, "%s", asked != NULL ? asked : named);
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
                    "  kept      keys and values of prompts and answers, in %s: %s, at most %s;\n"
                    "            they tell what was said. --no-kv-dir keeps none, rm -r deletes "
                    "them\n",
                    s->kv_dir, bytes[0], bytes[1]);
}
