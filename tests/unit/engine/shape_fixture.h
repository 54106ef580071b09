/* SPDX-License-Identifier: Apache-2.0 */
/* Engines of published models' shapes, without files. */
#ifndef WHIM_TESTS_UNIT_ENGINE_SHAPE_FIXTURE_H
#define WHIM_TESTS_UNIT_ENGINE_SHAPE_FIXTURE_H

#include "engine/engine.h"
#include "support/cmocka.h"

static inline whim_engine_cfg shape_cfg(const char *model)
{
    return (whim_engine_cfg){.model = model, .load_format = "dummy", .n_thread = 1};
}

static inline whim_engine *prepare(const whim_engine_cfg *cfg)
{
    whim_engine *engine = NULL;
    whim_diag diag = {{0}};
    if (whim_engine_prepare(cfg, &engine, &diag) != WHIM_ERR_OK) {
        fail_msg("%s", diag.text);
    }
    return engine;
}

#endif
