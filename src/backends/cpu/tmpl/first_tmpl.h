/* SPDX-License-Identifier: Apache-2.0 */
/* What a level's own loops build on; included by its file after its vectors. */
#include "backends/cpu/tmpl/level_tmpl.h"

#include "backends/cpu/tmpl/codes_tmpl.h"
#include "backends/cpu/tmpl/exp_tmpl.h"
#include "backends/cpu/tmpl/float_tmpl.h"
