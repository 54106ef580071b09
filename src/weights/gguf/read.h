/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of opening a GGUF file, shared by its source files and by tests. */
#ifndef WHIM_WEIGHTS_GGUF_READ_H
#define WHIM_WEIGHTS_GGUF_READ_H

#include "weights/arch.h"
#include "weights/gguf/gguf.h"

/* The header's limit: a vocabulary of 250,000 takes about 20 MB. */
enum { WHIM_GGUF_HEADER_MAX = 256 << 20 };

/* Read magic, version and keys of an opened file into a zeroed `gguf`; names go to `arena`. */
WHIM_MUST_CHECK whim_err whim_gguf_read_keys(whim_gguf *gguf, whim_arena *arena,
                                             const whim_ckpt_file *file, whim_diag *diag);

/* Add the tensors of the file that `gguf` was read from to the checkpoint, under canonical names;
 * fused ones are cut by the checkpoint's configuration, which must be filled. */
WHIM_MUST_CHECK whim_err whim_gguf_read_tensors(whim_gguf *gguf, whim_ckpt *ckpt, int32_t file,
                                                whim_diag *diag);

/* Fill `config` from the keys; what depends on the tensors is left to whim_gguf_config_finish. */
WHIM_MUST_CHECK whim_err whim_gguf_config(whim_config *config, const whim_arch_list *archs,
                                          const whim_gguf *gguf, whim_diag *diag);

/* The rest, from a finished list of tensors: tied head, biases, type; then whim_config_check. */
WHIM_MUST_CHECK whim_err whim_gguf_config_finish(whim_ckpt *ckpt, whim_diag *diag);

typedef enum whim_gguf_name {
    WHIM_GGUF_NAME_PLAIN,
    WHIM_GGUF_NAME_QKV, /* "layers.N.self_attn.qkv_proj.*": rows of q, then k, then v */
} whim_gguf_name;

/* Room for a canonical name made from a known one. */
enum { WHIM_GGUF_NAME_MAX = 128 };

/* The canonical name of a tensor of such a model in `out`; an unknown name is left to the caller
 * (false). */
bool whim_gguf_canonical_name(const whim_config *config, const char *name,
                              char out[WHIM_GGUF_NAME_MAX], whim_gguf_name *kind);

/* The reverse: a file's name for a canonical one; false when GGUF has none. */
bool whim_gguf_file_name(const whim_config *config, const char *canonical,
                         char out[WHIM_GGUF_NAME_MAX]);

/* A cursor over the header, which is read from the file as far as needed. */
typedef struct whim_gguf_cursor {
    whim_gguf *gguf;
    const whim_ckpt_file *file;
    int64_t at;
    whim_diag *diag;
} whim_gguf_cursor;

/* Move over `n` bytes that are then in memory; `what` names them when the file is too short. */
WHIM_MUST_CHECK whim_err whim_gguf_take(whim_gguf_cursor *cursor, int64_t n, const char *what,
                                        const uint8_t **out);
WHIM_MUST_CHECK whim_err whim_gguf_take_u32(whim_gguf_cursor *cursor, const char *what,
                                            uint32_t *out);
WHIM_MUST_CHECK whim_err whim_gguf_take_u64(whim_gguf_cursor *cursor, const char *what,
                                            uint64_t *out);

/* A length-prefixed string; `*text` is valid until the next take. */
WHIM_MUST_CHECK whim_err whim_gguf_take_string(whim_gguf_cursor *cursor, const char *what,
                                               const char **text, int64_t *n);

/* A string that becomes a name: at most `max` bytes, none of them NUL; copied into the arena. */
WHIM_MUST_CHECK whim_err whim_gguf_take_name(whim_gguf_cursor *cursor, whim_arena *arena,
                                             const char *what, int64_t max, const char **out);

/* What GGUF calls such a model and what it is there, NULL if it has no name for it. */
const whim_gguf_arch *whim_gguf_arch_of(const whim_config *config);

/* Little-endian bytes. */
static inline uint32_t whim_gguf_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t whim_gguf_u64(const uint8_t *p)
{
    return (uint64_t)whim_gguf_u32(p) | (uint64_t)whim_gguf_u32(p + 4) << 32;
}

/* Bytes of one element of a fixed-size type, 0 for strings and arrays. */
int64_t whim_gguf_type_bytes(whim_gguf_type type);

/* --- the keys "<architecture>.<suffix>" while the configuration is read ----------------------- */

enum { WHIM_GGUF_KEY_MAX = 160 };

typedef struct whim_gguf_source {
    const whim_gguf *gguf;
    const char *arch; /* as the file spells it */
    const whim_gguf_arch *facts;
    whim_diag *diag;
} whim_gguf_source;

/* "<arch>.<suffix>" */
const char *whim_gguf_source_name(const whim_gguf_source *s, const char *suffix,
                                  char out[WHIM_GGUF_KEY_MAX]);
bool whim_gguf_source_has(const whim_gguf_source *s, const char *suffix);
WHIM_MUST_CHECK whim_err whim_gguf_source_require(const whim_gguf_source *s, const char *suffix);

/* An absent key leaves the output as it was. */
WHIM_MUST_CHECK whim_err whim_gguf_source_real(const whim_gguf_source *s, const char *suffix,
                                               double min, double max, double *out);
WHIM_MUST_CHECK whim_err whim_gguf_source_i32(const whim_gguf_source *s, const char *suffix,
                                              int32_t min, int32_t max, int32_t *out);

/* A number that a file may also give per layer; the layers must agree. */
WHIM_MUST_CHECK whim_err whim_gguf_source_layer_i32(const whim_gguf_source *s, const char *suffix,
                                                    int32_t n_layer, int32_t max, int32_t *out);

/* The experts, and the gated delta nets (number of layers known). */
WHIM_MUST_CHECK whim_err whim_gguf_config_experts(const whim_gguf_source *s, whim_config *config);
WHIM_MUST_CHECK whim_err whim_gguf_config_gdn(const whim_gguf_source *s, whim_config *config);

#endif
