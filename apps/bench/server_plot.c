/* SPDX-License-Identifier: Apache-2.0 */
/* The rows as an SVG drawing: four panels (tokens a second, TTFT, TPOT, ITL) over the number of
 * clients. Colours follow the reader's light or dark setting; a viewer that knows neither shows the
 * light ones. */
#include "bench/server.h"

#include <math.h>
#include <stddef.h>

enum {
    WIDTH = 960,
    HEIGHT = 684,
    TOP = 64, /* of the first panel */
    PANEL_WIDTH = 480,
    PANEL_HEIGHT = 306,
    PLOT_LEFT = 72, /* of the axes inside a panel */
    PLOT_TOP = 44,
    PLOT_WIDTH = 376,
    PLOT_HEIGHT = 204,
    MAX_SERIES = 3,
    MAX_TICKS = 6,
};

typedef struct panel {
    const char *title;
    int32_t n_series, first_color;
    int32_t legend_step; /* room for a name; the title needs the rest of the line */
    const char *names[MAX_SERIES];
    double v[MAX_SERIES][WHIM_OPTION_MAX_INTS]; /* NaN: nothing to draw */
} panel;

static const char style[] =
    "<style>\n"
    "text{font:12px system-ui,sans-serif;fill:#333}\n"
    ".head{font-size:17px;font-weight:600}.title{font-size:14px;font-weight:600}\n"
    ".paper{fill:#fff}.grid{stroke:#ddd}.axis{stroke:#777}\n"
    ".line{fill:none;stroke-width:2;stroke-linejoin:round}.end{text-anchor:end}.mid{text-anchor:"
    "middle}\n"
    ".c0{stroke:#1b6ac9}.c1{stroke:#c2600a}.c2{stroke:#b3207f}.c3{stroke:#11806a}.c4{stroke:#"
    "6b4fc4}\n"
    ".d0{fill:#1b6ac9}.d1{fill:#c2600a}.d2{fill:#b3207f}.d3{fill:#11806a}.d4{fill:#6b4fc4}\n"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.paper{fill:#16181d}.grid{stroke:#333842}"
    ".axis{stroke:#99a}\n"
    ".c0{stroke:#6db3ff}.c1{stroke:#ffa552}.c2{stroke:#ff7ac6}.c3{stroke:#4fd1b5}.c4{stroke:#"
    "b39dff}\n"
    ".d0{fill:#6db3ff}.d1{fill:#ffa552}.d2{fill:#ff7ac6}.d3{fill:#4fd1b5}.d4{fill:#b39dff}}\n"
    "</style>\n";

static void append_xml(const char *text, whim_str *out)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '<':
            whim_str_append(out, "&lt;");
            break;
        case '>':
            whim_str_append(out, "&gt;");
            break;
        case '&':
            whim_str_append(out, "&amp;");
            break;
        default:
            whim_str_append_char(out, (unsigned char)*text < ' ' ? ' ' : *text);
        }
    }
}

/* --- the panels ------------------------------------------------------------------------------- */

static panel rates_panel(const server_level *levels, int32_t n)
{
    panel p = {"tokens/s", 2, 3, 92, {"total", "generated"}, {{0}}};
    for (int32_t i = 0; i < n; i++) {
        const server_level *l = &levels[i];
        p.v[0][i] = l->n_ok > 0 ? server_rate(l, l->prompt_tokens + l->gen_tokens) : NAN;
        p.v[1][i] = l->n_ok > 0 ? server_rate(l, l->gen_tokens) : NAN;
    }
    return p;
}

static panel times_panel(const char *title, const server_level *levels, int32_t n, size_t offset)
{
    panel p = {title, 3, 0, 60, {"p50", "p90", "p99"}, {{0}}};
    for (int32_t i = 0; i < n; i++) {
        const server_percentiles *v =
            (const server_percentiles *)((const char *)&levels[i] + offset);
        p.v[0][i] = v->p50;
        p.v[1][i] = v->p90;
        p.v[2][i] = v->p99;
    }
    return p;
}

/* The step between ticks, 1, 2 or 5 times a power of ten, and how many it takes to pass the largest
 * value. */
static double tick_step(const panel *p, int32_t n, int32_t *n_tick)
{
    double most = 0;
    for (int32_t s = 0; s < p->n_series; s++) {
        for (int32_t i = 0; i < n; i++) {
            most = p->v[s][i] > most ? p->v[s][i] : most;
        }
    }
    most = most > 0 ? most : 1;
    double power = pow(10, floor(log10(most / MAX_TICKS)));
    double step = power;
    for (int i = 0; step * MAX_TICKS < most; i++) {
        step = power * (i == 0 ? 2 : i == 1 ? 5 : 10);
    }
    *n_tick = (int32_t)ceil(most / step - 1e-9);
    return step;
}

/* Levels stand side by side at equal distances, because clients mostly double. */
static double level_x(int32_t i, int32_t n)
{
    return PLOT_LEFT + PLOT_WIDTH * (i + 0.5) / n;
}

static void append_axes(const panel *p, const server_level *levels, int32_t n, double step,
                        int32_t n_tick, whim_str *out)
{
    int bottom = PLOT_TOP + PLOT_HEIGHT, right = PLOT_LEFT + PLOT_WIDTH;
    whim_str_printf(out, "<text class=\"title\" x=\"%d\" y=\"18\">%s</text>\n", PLOT_LEFT,
                    p->title);
    for (int32_t i = 0; i <= n_tick; i++) {
        double y = bottom - (double)PLOT_HEIGHT * i / n_tick;
        whim_str_printf(out,
                        "<line class=\"%s\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>"
                        "<text class=\"end\" x=\"%d\" y=\"%.1f\">%.6g</text>\n",
                        i == 0 ? "axis" : "grid", PLOT_LEFT, y, right, y, PLOT_LEFT - 8, y + 4,
                        step * i);
    }
    whim_str_printf(out, "<line class=\"axis\" x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\"/>\n",
                    PLOT_LEFT, PLOT_TOP, PLOT_LEFT, bottom);
    for (int32_t i = 0; i < n; i++) {
        whim_str_printf(out, "<text class=\"mid\" x=\"%.1f\" y=\"%d\">%lld</text>\n", level_x(i, n),
                        bottom + 18, (long long)levels[i].clients);
    }
    whim_str_printf(out, "<text class=\"mid\" x=\"%d\" y=\"%d\">clients</text>\n",
                    PLOT_LEFT + PLOT_WIDTH / 2, bottom + 36);
}

static void append_series(const panel *p, int32_t s, const server_level *levels, int32_t n,
                          double top, whim_str *out)
{
    int color = p->first_color + s, x = PLOT_LEFT + PLOT_WIDTH - p->legend_step * (p->n_series - s);
    bool pen = false;
    whim_str_printf(out,
                    "<line class=\"line c%d\" x1=\"%d\" y1=\"14\" x2=\"%d\" y2=\"14\"/>"
                    "<text x=\"%d\" y=\"18\">%s</text>\n<path class=\"line c%d\" d=\"",
                    color, x, x + 20, x + 26, p->names[s], color);
    for (int32_t i = 0; i < n; i++) {
        double v = p->v[s][i];
        if (isfinite(v)) {
            whim_str_printf(out, "%c%.1f %.1f", pen ? 'L' : 'M', level_x(i, n),
                            PLOT_TOP + PLOT_HEIGHT * (1 - v / top));
        }
        pen = isfinite(v);
    }
    whim_str_append(out, "\"/>\n");
    for (int32_t i = 0; i < n; i++) {
        double v = p->v[s][i];
        if (isfinite(v)) {
            whim_str_printf(out,
                            "<circle class=\"d%d\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"><title>%s at "
                            "%lld clients: %.4g</title></circle>\n",
                            color, level_x(i, n), PLOT_TOP + PLOT_HEIGHT * (1 - v / top),
                            p->names[s], (long long)levels[i].clients, v);
        }
    }
}

static void append_panel(const panel *p, const server_level *levels, int32_t n, int32_t place,
                         whim_str *out)
{
    int32_t n_tick;
    double step = tick_step(p, n, &n_tick);
    whim_str_printf(out, "<g transform=\"translate(%d %d)\">\n", place % 2 * PANEL_WIDTH,
                    TOP + place / 2 * PANEL_HEIGHT);
    append_axes(p, levels, n, step, n_tick, out);
    for (int32_t s = 0; s < p->n_series; s++) {
        append_series(p, s, levels, n, step * n_tick, out);
    }
    whim_str_append(out, "</g>\n");
}

void server_append_svg(const server_target *t, const server_level *levels, int32_t n, whim_str *out)
{
    const panel panels[] = {
        rates_panel(levels, n),
        times_panel("time to first token, ms", levels, n, offsetof(server_level, ttft_ms)),
        times_panel("time per token, ms", levels, n, offsetof(server_level, tpot_ms)),
        times_panel("between chunks, ms", levels, n, offsetof(server_level, itl_ms)),
    };
    whim_str_printf(out,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
                    "width=\"%d\" height=\"%d\" role=\"img\">\n<title>",
                    WIDTH, HEIGHT, WIDTH, HEIGHT);
    append_xml(t->model, out);
    whim_str_append(out, " by number of clients</title>\n");
    whim_str_append(out, style);
    whim_str_printf(out,
                    "<rect class=\"paper\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n"
                    "<text class=\"head\" x=\"%d\" y=\"30\">",
                    WIDTH, HEIGHT, PLOT_LEFT);
    append_xml(t->model, out);
    whim_str_printf(out, "</text>\n<text x=\"%d\" y=\"48\">%s at ", PLOT_LEFT,
                    t->options->endpoint);
    append_xml(t->address.authority, out);
    whim_str_printf(out, ": prompts of about %lld tokens, answers of %lld</text>\n",
                    (long long)(t->prompt_words + t->options->prefix_tokens), (long long)t->tokens);
    for (int32_t i = 0; i < 4; i++) {
        append_panel(&panels[i], levels, n, i, out);
    }
    whim_str_append(out, "</svg>\n");
}
