/* SPDX-License-Identifier: Apache-2.0 */
/* What answers in a chat: a server that runs already, or a model that is loaded here. On a terminal
 * a server of this machine is joined where nothing speaks against it; a script gets a server only
 * when it names one, so that the same line gives the same answer whatever else runs. */
#include "base/clock.h"
#include "base/file.h"
#include "base/os/facts.h"
#include "chat/chat.h"
#include "hub_model.h"
#include "local/fetch.h"
#include "local/running.h"
#include "texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- a model of our own ----------------------------------------------------------------------- */

/* Whether there can be an answer of the form that is asked for: found out before weights load. */
static bool check_form(const chat *c)
{
    const whimbrel_message any = {"user", "?"};
    whimbrel_request_options ask = ask_options(c->options, &c->sampling, &c->form);
    whimbrel_request *request;
    whimbrel_error error;
    ask.messages = &any;
    ask.n_message = 1;
    if (form_is_given(&c->form) &&
        whimbrel_prepare(c->model, &ask, &request, &error) != WHIMBREL_OK) {
        complain_of(&error);
        return false;
    }
    if (form_is_given(&c->form)) {
        whimbrel_free(request);
    }
    return true;
}

static whimbrel_model *open_it(const chat *c, loader *load)
{
    whimbrel_model_options options = model_options(c->options, c->path);
    whim_library_extra extra = model_extra(c->options);
    extra.no_checkpoints = false; /* a turn goes on from the one before */
    options.wake = ask_wake;
    /* The memory plan is for those who ask; refusals name its numbers. */
    whimbrel_model *model =
        open_model(&options, &extra, c->options->quiet || c->view.terminal, load);
    load->quiet = c->options->quiet;
    load->delay_ns = WHIM_NS_PER_S;
    return model;
}

static void own_close(chat *c)
{
    whimbrel_close(c->model);
    c->model = NULL;
    c->info = NULL;
}

/* Load the model at c->path; after a complaint there is none. */
static bool own_load(chat *c)
{
    loader load;
    c->model = open_it(c, &load);
    if (c->model == NULL) {
        return false;
    }
    c->info = whimbrel_get_info(c->model);
    bool ok = sampling_choose(&c->sampling, c->options, c->model, c->path, false);
    if (ok && !c->info->has_template) {
        complain(EXIT_FAILED,
                 "%s has no chat template: it is not made for chats. \"whimbrel run -p\" continues "
                 "text with it; --chat-template FILE gives it one",
                 c->path);
        ok = false;
    }
    ok = ok && check_form(c) && load_model(c->model, &load);
    if (!ok) {
        own_close(c);
        return false;
    }
    c->context = c->info->context;
    return true;
}

/* The path of the model with this name, which may take a download. */
static bool find_path(const chat *c, const char *name, char path[MODEL_PATH_MAX])
{
    whim_options named = *c->options;
    named.model = name;
    const char *found =
        fetch_default(&named, (fetch_how){.wait = NULL}) ? choose_model(&named, path) : NULL;
    if (found != NULL && found != path) {
        snprintf(path, MODEL_PATH_MAX, "%s", found);
    }
    return found != NULL;
}

/* --- a server --------------------------------------------------------------------------------- */

/* The first option that was given and is about loading a model, or NULL. */
static const char *loading_option(const whim_options *o)
{
    const struct {
        const void *field;
        const char *name;
    } list[] = {
        {&o->ctx, "ctx"},
        {&o->kv_mem, "kv-mem"},
        {&o->kv_type, "kv-dtype"},
        {&o->max_step_tokens, "max-step-tokens"},
        {&o->chat_template, "chat-template"},
        {&o->think_budget, "think-budget"},
        {&o->load_format, "load-format"},
        {&o->weight_type, "weight-type"},
        {&o->backend, "backend"},
        {&o->isa, "isa"},
        {&o->threads, "threads"},
        {&o->draft, "draft"},
        {&o->draft_type, "draft-type"},
        {&o->lookup, "lookup"},
        {&o->tp, "tp"},
        {&o->cp, "cp"},
        {&o->ep, "ep"},
        {&o->ep_dispatch, "ep-dispatch"},
        {&o->ep_slots, "ep-slots"},
        {&o->ep_experts, "ep-experts"},
        {&o->oversubscribe, "oversubscribe"},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        if (whim_options_gave(o, list[i].field)) {
            return list[i].name;
        }
    }
    return NULL;
}

static bool join_named(chat *c)
{
    const whim_options *o = c->options;
    whim_diag diag = {""};
    const char *loading = loading_option(o);
    if (loading != NULL) {
        complain(EXIT_USAGE,
                 "--%s is about a model that is loaded here, and --url joins one that runs: give "
                 "one of them",
                 loading);
        return false;
    }
    if (joined_open(&c->server, o, "--url", o->url, o->model, &diag) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "%s", diag.text);
        return false;
    }
    return true;
}

/* Whether a server has what MODEL says, a path or a name; without one, whatever it has. */
static bool has_model(const running_server *s, const char *model)
{
    char path[MODEL_PATH_MAX];
    return model == NULL || strcmp(model, s->model) == 0 || running_has(s, model) ||
           (hub_model_cached(model, path) && running_has(s, path));
}

/* Join the newest server that runs here and has the model; false: there is none, or it does not
 * want us. */
static bool join_running(chat *c)
{
    static running_list list;
    whim_diag diag = {""};
    running_find(&list);
    for (int32_t i = 0; i < list.n; i++) {
        running_server *s = &list.v[i];
        running_ask(s);
        if (s->state != RUNNING_READY || s->tls || !has_model(s, c->options->model)) {
            continue;
        }
        if (joined_open(&c->server, c->options, "the running server", s->url, NULL, &diag) ==
            WHIM_ERR_OK) {
            return true;
        }
        joined_close(&c->server);
        if (!c->options->quiet) {
            view_note(&c->view, "[a model is loaded here: %s]", diag.text);
        }
    }
    return false;
}

/* --- opening ---------------------------------------------------------------------------------- */

static bool open_source(chat *c)
{
    const whim_options *o = c->options;
    bool asks = c->view.terminal && whim_os_term_is(STDIN_FILENO);
    if (o->url != NULL ? join_named(c)
                       : asks && o->join_running && loading_option(o) == NULL && join_running(c)) {
        c->context = c->server.model.context;
        return sampling_read_bias(&c->sampling, o);
    }
    return o->url == NULL && find_path(c, o->model, c->path) && own_load(c);
}

bool chat_open(chat *c)
{
    const whim_options *o = c->options;
    if (!check_utf8(o->system != NULL ? o->system : "", "the system message") || !check_stops(o)) {
        return false;
    }
    if (o->system != NULL &&
        whim_conversation_push(c->conv, "system", o->system, NULL) != WHIM_ERR_OK) {
        complain(EXIT_FAILED, "out of memory");
        return false;
    }
    return open_source(c);
}

void chat_close(chat *c)
{
    own_close(c);
    joined_close(&c->server);
}

void chat_banner(chat *c)
{
    whim_str params = {0};
    whim_str context = {0};
    if (c->model == NULL) {
        view_note(&c->view, "joined the server at %s, which has %s; --no-join loads a model here",
                  c->server.url, c->server.model.name);
        joined_append_params(&c->server, &params);
        view_note(&c->view, "sampling: %s", whim_str_text(&params));
    } else {
        append_context(&context, c->options, whim_library_engine(c->model), c->info->context);
        append_params(&params, &c->sampling.v, true);
        view_note(&c->view, "%s: %s", whim_path_base(c->path), whim_str_text(&context));
        view_note(&c->view, "sampling: %s (defaults from %s)", whim_str_text(&params),
                  c->info->sampling);
    }
    whim_str_deinit(&params);
    whim_str_deinit(&context);
}

/* --- another one ------------------------------------------------------------------------------ */

/* The model of the server that has this name; false: there is none, and `names` are those that
 * there are. */
static bool switch_joined(chat *c, const char *name)
{
    whim_diag diag = {""};
    whim_str names = {0};
    bool ok = joined_choose(&c->server, name, &names, &diag) == WHIM_ERR_OK;
    if (ok) {
        c->context = c->server.model.context;
    }
    whim_str_deinit(&names);
    return ok;
}

/* The old model goes first, so that the new one has its memory. Options that were meant for the
 * first model alone do not follow. */
static bool switch_own(chat *c, const char *path)
{
    const whim_options *options = c->options;
    whim_options plain = *options;
    char old[MODEL_PATH_MAX];
    sampling kept = c->sampling;
    bool had_model = c->model != NULL;
    snprintf(old, sizeof old, "%s", c->path);
    snprintf(c->path, sizeof c->path, "%s", path);
    plain.draft = NULL;
    plain.chat_template = NULL;
    own_close(c);
    c->options = &plain;
    bool ok = own_load(c);
    c->options = options;
    if (ok) {
        joined_close(&c->server);
        return true;
    }
    snprintf(c->path, sizeof c->path, "%s", old);
    if (had_model && !own_load(c)) {
        complain(EXIT_FAILED, "and %s, which was there, cannot be loaded again", old);
        c->quit = c->failed = true;
    }
    c->sampling = kept;
    return false;
}

/* A complaint while the chat goes on: on a terminal its rows end between words, too. */
static void hear(void *ctx, const char *text)
{
    view_error(ctx, "%s", text);
}

void chat_switch(chat *c, const char *name)
{
    char path[MODEL_PATH_MAX];
    view_break(&c->view);
    if (c->view.terminal) {
        complain_by(hear, &c->view);
    }
    bool switched = (c->model == NULL && switch_joined(c, name)) ||
                    (find_path(c, name, path) && switch_own(c, path));
    complain_by(NULL, NULL);
    if (switched) {
        chat_banner(c);
    } else if (!c->quit) {
        view_note(&c->view, "[%s stays]",
                  c->model != NULL ? whim_path_base(c->path) : c->server.model.name);
    }
}
