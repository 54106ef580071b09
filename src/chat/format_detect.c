/* SPDX-License-Identifier: Apache-2.0 */
/* What a template's source tells about its model: which form of calls it prints, whether it knows
 * reasoning. */
#include "chat/format.h"

#include "chat/reasoning.h"
#include "models/model.h"

#include <string.h>

whim_chat_format whim_chat_format_detect(const char *template_source)
{
    whim_chat_format format = {.tools = WHIM_TOOLS_HERMES};
    if (template_source == NULL) {
        return format;
    }
    const char *source = template_source;
    const whim_tool_words *words = whim_model_tool_words_in(source);
    bool known = words != NULL || strstr(source, "<tool_call>") != NULL;
    format.tools = words != NULL ? words->form : WHIM_TOOLS_HERMES;
    /* A template may print tools in a form that nothing here reads; then the fallback speaks for
     * it. */
    format.native_tools = known && strstr(source, "tools") != NULL;
    if (!format.native_tools) {
        format.tools = WHIM_TOOLS_HERMES;
    }
    format.reasons =
        strstr(source, WHIM_THINK_OPEN) != NULL || strstr(source, WHIM_THINK_CLOSE) != NULL;
    format.thinking_switch = strstr(source, "enable_thinking") != NULL;
    return format;
}
