/* SPDX-License-Identifier: Apache-2.0 */
/* Where pages of keys and values are kept over a restart. */
#include "serve/kv_keep.h"
#include "serve/serve.h"

#include "base/os/mem.h"

static void unused(serve *s, const char *why)
{
    whim_log_warn(&s->log, "kv_dir", whim_log_text("unused", why));
}

/* The folder that the command line or the environment names, "" for none; NULL: neither says. */
static const char *asked_folder(const whim_options *options)
{
    return options->kv_dir != NULL ? options->kv_dir : env_kv_dir();
}

bool serve_kv_dir_insist(const whim_options *options, char dir[MODEL_PATH_MAX])
{
    whim_str why = {0};
    const char *asked = asked_folder(options);
    bool ok = true;
    if (asked != NULL && asked[0] == '\0') {
        complain(EXIT_USAGE, "--no-kv-dir, or an empty WHIMBREL_KV_DIR, says that pages are kept "
                             "nowhere, but this command needs their folder: give --kv-dir FOLDER");
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
    const char *asked = asked_folder(s->options);
    const char *reason = kv_keep_reason(s->nodes.cfg.n_node, whim_os_mem_available());
    whim_str why = {0};
    s->kv_dir[0] = '\0';
    s->kv_dir_is_ours = asked == NULL;
    if (asked != NULL) {
        snprintf(s->kv_dir, sizeof s->kv_dir, "%s", asked);
    } else if (reason != NULL) {
        unused(s, reason);
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
