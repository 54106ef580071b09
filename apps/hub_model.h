/* SPDX-License-Identifier: Apache-2.0 */
/* Models by their names on a hub: settings from the environment, messages and a bar on standard
 * error.
 * Threads: the main thread; messages may come from others, one at a time. */
#ifndef WHIM_APPS_HUB_MODEL_H
#define WHIM_APPS_HUB_MODEL_H

#include "base/report/log.h"
#include "base/report/progress.h"
#include "cmd.h"
#include "hub/hub.h"

enum { HUB_TEXT_MAX = 1024 };

/* Who else hears of a fetch: a server's log, which then has all of it instead of standard error,
 * and its supervisor. */
typedef struct hub_listener {
    whim_log *log;                             /* or NULL */
    void (*progress)(void *ctx, double share); /* or NULL; any thread */
    void *ctx;
} hub_listener;

/* For the visits that follow. */
void hub_listen(hub_listener listener);

/* One visit to a hub. Stays where it is between open and close. */
typedef struct hub_visit {
    whim_hub_cfg cfg; /* may be changed after open */
    bool quiet, begun;
    bool found; /* the hub or the cache knows the model */
    whim_progress bar;
    int64_t done;
    int64_t log_ns;    /* not to be logged before */
    const char *given; /* what was typed, where that is not the model's whole name; NULL: it is */
    char name[HUB_TEXT_MAX]; /* ORG/NAME[@REV][:PICK] */
    char label[WHIM_HUB_ID_MAX + 8];
    char cache[MODEL_PATH_MAX], token_path[MODEL_PATH_MAX];
    char token[HUB_TEXT_MAX], endpoint[HUB_TEXT_MAX];
} hub_visit;

/* Read the environment (hub_env.c); false after a complaint. */
bool hub_settings_read(hub_visit *visit);

/* Whether the environment says that nothing may be downloaded. */
bool hub_is_offline(void);

/* Begin and end (`given` is what was typed for the model); between them a broken pipe or a file
 * that may not grow is an error and no signal. False after a complaint. */
bool hub_visit_open(hub_visit *visit, const whim_hub_ref *ref, const char *given, bool quiet);
void hub_visit_close(hub_visit *visit, bool ok);

/* Say in an error what the name stands for, unless that was said. */
void hub_visit_blame(const hub_visit *visit, whim_err err, whim_diag *diag);

/* What a MODEL that is no path stands for: a short name (local/catalogue.h), an address, or
 * ORG/NAME[@REV][:PICK]. INVALID with a message if it is not one. */
WHIM_MUST_CHECK whim_err hub_ref_read(whim_hub_ref *ref, const char *given, whim_diag *diag);

/* The folder or file of such a MODEL, fetched when the cache does not have it; NULL after a
 * complaint. */
const char *hub_model_path(const whim_options *options, char buf[MODEL_PATH_MAX]);

/* The same of a draft, which is taken as it is where it is NULL, a path, or no name. */
const char *hub_draft_path(const char *draft, bool quiet, char buf[MODEL_PATH_MAX]);

/* Where the cache has such a MODEL already; no hub is asked. */
bool hub_model_cached(const char *given, char buf[MODEL_PATH_MAX]);

/* What to call a model, or a draft, that was given by name: "ORG/NAME" into `buf`; false when it
 * was a path or NULL. */
bool hub_name(const char *given, char *buf, int64_t n);

#endif
