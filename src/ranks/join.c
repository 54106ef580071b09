/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks/join.h"

#include "layers/ranks/dealt_experts.h"
#include "weights/identity/fingerprint.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* --- facts ------------------------------------------------------------------------------------ */

void whim_join_text(char out[WHIM_JOIN_WORD], const char *text)
{
    uint8_t sum[WHIM_SHA256_BYTES];
    whim_sha256 sha;
    if (text == NULL || strlen(text) < WHIM_JOIN_WORD) {
        snprintf(out, WHIM_JOIN_WORD, "%s", text != NULL ? text : "");
        return;
    }
    whim_sha256_init(&sha);
    whim_sha256_add(&sha, text, (int64_t)strlen(text));
    whim_sha256_end(&sha, sum);
    snprintf(out, WHIM_JOIN_WORD, "%.12s.. (%02x%02x%02x%02x%02x%02x)", text, sum[0], sum[1],
             sum[2], sum[3], sum[4], sum[5]);
}

/* What `auto` means is what nobody says. */
static const char *said(const char *text)
{
    return text != NULL && strcmp(text, "auto") == 0 ? NULL : text;
}

whim_err whim_join_facts_of(const whim_engine *engine, const whim_engine_cfg *cfg, int32_t n_node,
                            whim_join_facts *out, whim_diag *diag)
{
    const whim_config *config = whim_engine_config(engine);
    uint64_t print = 0;
    *out = (whim_join_facts){
        .n_node = n_node,
        .n_rank = cfg->n_rank,
        .n_share = cfg->n_share > 1 ? cfg->n_share : 0, /* --cp 1 is none */
        .n_group = cfg->n_group > 1 ? cfg->n_group : 0,
        .n_deal = cfg->n_deal > 1 ? cfg->n_deal : 0,
        .deal_cut = cfg->n_deal > 1 && cfg->deal_cut,
        .deal_slots = cfg->deal_slots > 0 ? cfg->deal_slots : WHIM_DEAL_SLOTS,
        .n_layer = config->n_layer,
        .d_model = config->d_model,
        .n_head = config->n_head,
        .n_kv = config->n_kv,
        .d_ff = config->d_ff,
        .n_vocab = config->n_vocab,
        .ctx = cfg->ctx,
        .max_seqs = cfg->max_seqs,
        .kv_mem = cfg->kv_mem,
        .max_step_tokens = cfg->max_step_tokens,
    };
    WHIM_TRY(whim_ckpt_fingerprint(whim_engine_ckpt(engine), &print, diag));
    snprintf(out->model, sizeof out->model, "%016llx", (unsigned long long)print);
    if (cfg->draft != NULL) {
        WHIM_TRY(whim_ckpt_fingerprint(whim_engine_draft_ckpt(engine), &print, diag));
        snprintf(out->draft, sizeof out->draft, "%016llx", (unsigned long long)print);
    }
    whim_join_text(out->load_format, cfg->load_format);
    whim_join_text(out->weight_type, cfg->weight_type);
    whim_join_text(out->architecture, config->arch->name);
    whim_join_text(out->backend, whim_engine_backend(engine));
    whim_join_text(out->isa, whim_engine_caps(engine)->isa);
    whim_join_text(out->kv_type, cfg->kv_type);
    whim_join_text(out->deal_rows, said(cfg->deal_rows));
    whim_join_text(out->deal_counts, cfg->deal_counts);
    whim_join_text(out->draft_type, cfg->draft != NULL ? cfg->draft_type : NULL);
    return WHIM_ERR_OK;
}

static whim_err number_compare(const char *name, int64_t leader, int64_t node, int64_t number,
                               whim_diag *diag)
{
    return leader == node ? WHIM_ERR_OK
                          : whim_fail(diag, WHIM_ERR_INVALID, "%s: node %lld has %lld, node 0 %lld",
                                      name, (long long)number, (long long)node, (long long)leader);
}

/* Letters of a text that came from outside. */
static int length_of(const char text[WHIM_JOIN_WORD])
{
    int n = (int)strnlen(text, WHIM_JOIN_WORD);
    for (int i = 0; i < n; i++) {
        if (text[i] < ' ' || text[i] > '~') {
            return i;
        }
    }
    return n;
}

static whim_err text_compare(const char *name, const char leader[WHIM_JOIN_WORD],
                             const char node[WHIM_JOIN_WORD], int64_t number, whim_diag *diag)
{
    if (strncmp(leader, node, WHIM_JOIN_WORD) == 0) {
        return WHIM_ERR_OK;
    }
    return whim_fail(diag, WHIM_ERR_INVALID, "%s: node %lld has %.*s, node 0 %.*s", name,
                     (long long)number, node[0] != '\0' ? length_of(node) : 4,
                     node[0] != '\0' ? node : "none", leader[0] != '\0' ? length_of(leader) : 4,
                     leader[0] != '\0' ? leader : "none");
}

whim_err whim_join_compare(const whim_join_facts *leader, const whim_join_facts *node,
                           int64_t number, whim_diag *diag)
{
#define WHIM_JOIN_NUMBER(field, name) \
    WHIM_TRY(number_compare(name, leader->field, node->field, number, diag));
#define WHIM_JOIN_TEXT_OF(field, name) \
    WHIM_TRY(text_compare(name, leader->field, node->field, number, diag));
#include "ranks/join.def"
    return WHIM_ERR_OK;
}

/* --- proofs ----------------------------------------------------------------------------------- */

/* What a proof is about: both numbers, who proves, and the message itself. */
static void prove(const char *who, const whim_join_challenge *challenge,
                  const whim_join_hello *hello, const void *message, size_t bytes,
                  whim_join_secret secret, uint8_t out[WHIM_SHA256_BYTES])
{
    struct {
        char who[8];
        uint8_t leader[WHIM_JOIN_NONCE], node[WHIM_JOIN_NONCE], sum[WHIM_SHA256_BYTES];
    } about = {{0}};
    whim_sha256 sum;
    snprintf(about.who, sizeof about.who, "%s", who);
    memcpy(about.leader, challenge->nonce, sizeof about.leader);
    memcpy(about.node, hello->nonce, sizeof about.node);
    whim_sha256_init(&sum);
    whim_sha256_add(&sum, message, (int64_t)bytes);
    whim_sha256_end(&sum, about.sum);
    whim_hmac_sha256(secret.text, secret.bytes, &about, sizeof about, out);
}

static void hello_prove(const whim_join_challenge *challenge, const whim_join_hello *hello,
                        whim_join_secret secret, uint8_t out[WHIM_SHA256_BYTES])
{
    prove("node", challenge, hello, hello, offsetof(whim_join_hello, proof), secret, out);
}

static void answer_prove(const whim_join_challenge *challenge, const whim_join_hello *hello,
                         const whim_join_answer *answer, whim_join_secret secret,
                         uint8_t out[WHIM_SHA256_BYTES])
{
    prove("leader", challenge, hello, answer, offsetof(whim_join_answer, proof), secret, out);
}

/* --- messages --------------------------------------------------------------------------------- */

static whim_err nonce_make(uint8_t out[WHIM_JOIN_NONCE], whim_diag *diag)
{
    if (getrandom(out, WHIM_JOIN_NONCE, 0) != WHIM_JOIN_NONCE) {
        return whim_fail(diag, WHIM_ERR_IO, "the system gives no random bytes");
    }
    return WHIM_ERR_OK;
}

whim_err whim_join_challenge_make(whim_join_challenge *out, whim_diag *diag)
{
    *out = (whim_join_challenge){
        .magic = WHIM_JOIN_MAGIC, .bytes = sizeof *out, .version = WHIM_VERSION};
    return nonce_make(out->nonce, diag);
}

whim_err whim_join_hello_make(const whim_join_challenge *challenge, const whim_join_facts *facts,
                              int32_t node, const whim_join_room *room, whim_join_secret secret,
                              whim_join_hello *out, whim_diag *diag)
{
    if (challenge->magic != WHIM_JOIN_MAGIC || challenge->bytes != sizeof *challenge) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "the program that answers there is not a leader of whimbrel");
    }
    if (strncmp(challenge->version, WHIM_VERSION, sizeof challenge->version) != 0) {
        return whim_fail(diag, WHIM_ERR_UNSUPPORTED,
                         "node %d is whimbrel " WHIM_VERSION ", node 0 %.*s", node,
                         length_of(challenge->version), challenge->version);
    }
    memset(out, 0, sizeof *out);
    out->magic = WHIM_JOIN_MAGIC;
    out->bytes = sizeof *out;
    snprintf(out->version, sizeof out->version, "%s", WHIM_VERSION);
    out->node = node;
    out->room = *room;
    out->facts = *facts;
    WHIM_TRY(nonce_make(out->nonce, diag));
    hello_prove(challenge, out, secret, out->proof);
    return WHIM_ERR_OK;
}

whim_err whim_join_hello_check(const whim_join_challenge *challenge, const whim_join_hello *hello,
                               const whim_join_facts *facts, whim_join_secret secret,
                               whim_diag *diag)
{
    uint8_t proof[WHIM_SHA256_BYTES];
    if (hello->magic != WHIM_JOIN_MAGIC || hello->bytes != sizeof *hello) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "its message is not that of a whimbrel " WHIM_VERSION " that joins");
    }
    hello_prove(challenge, hello, secret, proof);
    if (!whim_sha256_equal(proof, hello->proof)) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND, "it does not have node 0's secret");
    }
    if (strncmp(hello->version, WHIM_VERSION, sizeof hello->version) != 0) {
        return whim_fail(diag, WHIM_ERR_INVALID, "node %lld is whimbrel %.*s, node 0 " WHIM_VERSION,
                         (long long)hello->node, length_of(hello->version), hello->version);
    }
    if (hello->node < 1 || hello->node >= facts->n_node) {
        return whim_fail(diag, WHIM_ERR_INVALID, "--node-rank %lld of %lld: others are 1 to %lld",
                         (long long)hello->node, (long long)facts->n_node,
                         (long long)facts->n_node - 1);
    }
    const whim_engine_sizes *sizes = &hello->room.sizes;
    if (sizes->max_seqs < 1 || sizes->max_ctx < 1 || sizes->n_page < 1 || sizes->n_state < 0) {
        return whim_fail(diag, WHIM_ERR_INVALID, "node %lld has no room for a page of the model",
                         (long long)hello->node);
    }
    return whim_join_compare(facts, &hello->facts, hello->node, diag);
}

static bool lower(int64_t *value, int64_t to)
{
    bool is_less = to < *value;
    *value = is_less ? to : *value;
    return is_less;
}

bool whim_join_lower(whim_engine_sizes *sizes, const whim_join_room *room)
{
    bool any = lower(&sizes->max_seqs, room->sizes.max_seqs);
    any = lower(&sizes->n_state, room->sizes.n_state) || any;
    any = lower(&sizes->max_ctx, room->sizes.max_ctx) || any;
    return lower(&sizes->n_page, room->sizes.n_page) || any;
}

void whim_join_answer_make(const whim_join_challenge *challenge, const whim_join_hello *hello,
                           whim_err err, const char *text, int64_t limit_ns,
                           whim_join_secret secret, whim_join_answer *out)
{
    memset(out, 0, sizeof *out);
    out->magic = WHIM_JOIN_MAGIC;
    out->bytes = sizeof *out;
    out->err = err;
    out->limit_ns = limit_ns;
    snprintf(out->text, sizeof out->text, "%s", text);
    answer_prove(challenge, hello, out, secret, out->proof);
}

whim_err whim_join_answer_check(const whim_join_challenge *challenge, const whim_join_hello *hello,
                                const whim_join_answer *answer, whim_join_secret secret,
                                whim_diag *diag)
{
    uint8_t proof[WHIM_SHA256_BYTES];
    if (answer->magic != WHIM_JOIN_MAGIC || answer->bytes != sizeof *answer) {
        return whim_fail(diag, WHIM_ERR_CORRUPT,
                         "the program that answers there is not a leader of whimbrel");
    }
    answer_prove(challenge, hello, answer, secret, proof);
    if (!whim_sha256_equal(proof, answer->proof)) {
        return whim_fail(diag, WHIM_ERR_NOT_FOUND, "node 0 does not have node %lld's secret",
                         (long long)hello->node);
    }
    if (answer->err != WHIM_ERR_OK) {
        bool known = answer->err > 0 && answer->err < WHIM_ERR_COUNT;
        return whim_fail(diag, known ? (whim_err)answer->err : WHIM_ERR_INVALID, "%.*s",
                         (int)strnlen(answer->text, sizeof answer->text), answer->text);
    }
    return WHIM_ERR_OK;
}
