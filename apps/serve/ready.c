/* SPDX-License-Identifier: Apache-2.0 */
/* What a person sees when the server is ready. */
#include "serve/serve.h"

#include <string.h>
#include <unistd.h>

static bool is_default_model(const serve *s)
{
    return s->options->model == NULL;
}

void serve_url(const serve *s, whim_str *out)
{
    const char *host = s->options->host.n > 0 ? s->options->host.v[0] : "127.0.0.1";
    bool wide = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
    bool six = !wide && strchr(host, ':') != NULL;
    whim_str_printf(out, "http%s://%s%s%s:%d", s->options->tls_cert != NULL ? "s" : "",
                    six ? "[" : "", wide ? "127.0.0.1" : host, six ? "]" : "",
                    whim_server_port(s->server));
}

/* How to reach it from elsewhere, if this is a remote terminal or a container. */
static void append_reach(const serve *s, whim_str *out)
{
    const char *ssh = env_ssh_server();
    int32_t port = whim_server_port(s->server);
    if (s->options->host.n > 0) {
        return; /* it was chosen */
    }
    if (ssh != NULL) {
        whim_str_printf(out, "  over ssh  on your own machine: ssh -L %d:127.0.0.1:%d %s@%s\n",
                        port, port, env_user(), ssh);
    }
    if (env_is_container()) {
        whim_str_printf(
            out,
            "  container only this container can reach it; for others publish port %d and give "
            "--host 0.0.0.0\n"
            "            (HOST=0.0.0.0 with make); a key is then made\n",
            port);
    }
}

static void append_try(const serve *s, const char *url, whim_str *out)
{
    whim_str_printf(out,
                    "  try       curl %s/v1/chat/completions -d "
                    "'{\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'",
                    url);
    if (s->keys.n > 0) {
        whim_str_printf(out, " -H \"Authorization: Bearer %s\"",
                        s->key_is_made ? s->keys.v[0].text : "$KEY");
    }
    whim_str_append_char(out, '\n');
}

void serve_ready_text(const serve *s, whim_str *out)
{
    whim_str url = {0};
    const whim_engine *engine = whim_library_engine(s->model);
    const whim_exec_cfg *limits = whim_engine_limits(engine);
    serve_url(s, &url);
    whim_str_printf(out, "\nready: %s\n", whim_str_text(&url));
    if (s->key_is_made) {
        whim_str_printf(
            out,
            "  key       %s (made now, because others can reach this address; --api-key-file has "
            "your own)\n",
            s->keys.v[0].text);
    }
    whim_str_printf(out, "  model     %s, ", s->name);
    append_context(out, s->options, engine, whim_service_ctx(s->service));
    whim_str_printf(out, ", up to %lld requests at once\n",
                    (long long)(limits->max_seqs * whim_exec_groups(limits)));
    whim_str_printf(out, "  device    %s: %s\n", whim_engine_backend(engine),
                    whim_engine_caps(engine)->summary);
    if (s->draft_name[0] != '\0') {
        whim_str_printf(out, "  draft     %s: makes answers faster, and does not change them\n",
                        s->draft_name);
    }
    if (serve_lends_tools(s)) {
        whim_str_printf(out, "  tools     in the Hermes form, because %s\n",
                        s->chat.format.prints_tools
                            ? "whimbrel does not know the form of the model's template"
                            : "the model's template has none");
    }
    whim_str_append(out, "  sampling  ");
    append_params(out, &s->sampling.v, false);
    whim_str_append(out, " (unless a request says otherwise)\n");
    whim_str_printf(out,
                    "  OpenAI    base_url=%s/v1\n  Anthropic base_url=%s\n"
                    "  Ollama    host=%s (also for clients of llama.cpp)\n",
                    whim_str_text(&url), whim_str_text(&url), whim_str_text(&url));
    serve_kv_dir_text(s, out);
    if (is_default_model(s)) {
        whim_str_printf(out, "  note      135M parameters: a demo; for real work: %s\n",
                        s->options->fetch != NULL /* which make serve gives */
                            ? "make serve MODEL=auto, MODEL=qwen3:4b, or MODEL=path"
                            : "whimbrel serve auto, whimbrel serve qwen3:4b, or a path");
    }
    append_reach(s, out);
    append_try(s, whim_str_text(&url), out);
    whim_str_append(out, "  stop      Ctrl-C\n\n");
    whim_str_deinit(&url);
}
