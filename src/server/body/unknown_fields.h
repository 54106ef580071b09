/* SPDX-License-Identifier: Apache-2.0 */
/* Fields of requests that no route reads: tools send many, so they are ignored, and told at debug
 * level.
 * Threads: stateless. */
#ifndef WHIM_SERVER_BODY_UNKNOWN_FIELDS_H
#define WHIM_SERVER_BODY_UNKNOWN_FIELDS_H

#include "base/report/log.h"

#include <jansson.h>

/* One line if the body has such fields: how many, and the first 8 names, each cut to 64 bytes. */
void whim_unknown_fields_log(whim_log *log, const json_t *body, const char *request_id);

#endif
