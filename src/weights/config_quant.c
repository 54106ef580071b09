/* SPDX-License-Identifier: Apache-2.0 */
/* "quantization_config": which schemes the loader knows. Which tensors are quantised is not read here: a matrix of
 * e4m3 codes with a tensor of scales beside it is one, any other is not (bind.c). */
#include "weights/config_json.h"

#include <string.h>

static bool is_block_128(const whim_json *list)
{
    int64_t rows = 0, cols = 0;
    return list != NULL && whim_json_size(list) == 2 &&
           whim_json_as_int(whim_json_at(list, 0), &rows) &&
           whim_json_as_int(whim_json_at(list, 1), &cols) && rows == 128 && cols == 128;
}

whim_err whim_config_check_quant(const whim_json_scope *top)
{
    const whim_json *obj = NULL, *block = NULL;
    const char *method = "(none named)";
    WHIM_TRY(whim_json_get_object(top, "quantization_config", &obj));
    if (obj == NULL) {
        return WHIM_ERR_OK;
    }
    whim_json_scope scope = *top;
    scope.obj = obj;
    scope.prefix = "quantization_config.";
    WHIM_TRY(whim_json_get_string(&scope, "quant_method", &method));
    if (strcmp(method, "fp8") != 0) {
        return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"quantization_config.quant_method\" is \"%.64s\"; of quantised "
                         "safetensors only \"fp8\" is supported, use the unquantised model or a "
                         "GGUF file",
                         top->path, method);
    }
    WHIM_TRY(whim_json_get_array(&scope, "weight_block_size", &block));
    if (!is_block_128(block)) {
        return whim_fail(top->diag, WHIM_ERR_UNSUPPORTED,
                         "%s: \"quantization_config.weight_block_size\" is not [128, 128], the "
                         "only block of FP8 weights that is supported",
                         top->path);
    }
    return WHIM_ERR_OK;
}
