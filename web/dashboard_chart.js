// SPDX-License-Identifier: Apache-2.0
// A line chart over time in SVG: axes, lines with gaps, a cursor by pointer or arrow keys, the numbers as a table. It
// knows nothing of what it shows. Colours and strokes are classes, so that the style sheet rules light and dark.
const SVG = "http://www.w3.org/2000/svg";

export function element(name, attributes = {}, ...children) {
    const made = name.startsWith("svg:") ? document.createElementNS(SVG, name.slice(4)) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
        made.setAttribute(key, value);
    }
    made.append(...children);
    return made;
}

// Round numbers from 0 to at least `top`: the distance is 1, 2 or 5 times a power of ten.
function ticks(top, wanted) {
    const rough = top / wanted;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= rough * 0.999);
    const all = [];
    for (let i = 0; i * step < top + step * 0.999; i++) {
        all.push(i * step);
    }
    return all;
}

const ago = (seconds, unit, units) => (seconds < 120 ? `${Math.round(seconds)} ${unit}` : `${(seconds / 60).toFixed(1)} ${units}`);

export class Chart {
    // what: {id, title, note, unit(value, top), least, most, series: [{name, kind}]}
    constructor(what, onCursor) {
        this.what = what;
        this.onCursor = onCursor;
        this.points = [];
        this.cursor = null;
        this.build();
    }

    build() {
        const {id, title, note, series} = this.what;
        this.svg = element("svg:svg", {class: "plot", role: "img", tabindex: "0",
                                       "aria-labelledby": `${id}-title ${id}-says`});
        this.says = element("span", {id: `${id}-says`, class: "off-screen"});
        this.keys = series.map(line => {
            const value = element("span", {class: "value"}, "–");
            const swatch = element("span", {class: "swatch"});
            return {value, row: element("li", {class: `key ${line.kind}`}, swatch, line.name, " ", value)};
        });
        this.body = element("tbody");
        const head = ["Series", "Now", "Least", "Mean", "Most"].map(name => element("th", {scope: "col"}, name));
        const table = element("table", {}, element("caption", {class: "off-screen"}, title),
            element("thead", {}, element("tr", {}, ...head)), this.body);
        this.numbers = element("details", {class: "numbers"}, element("summary", {}, "Numbers"),
            element("div", {class: "scroll"}, table));
        this.numbers.addEventListener("toggle", () => this.fillTable());
        this.card = element("section", {class: "card", id, "aria-labelledby": `${id}-title`},
            element("h2", {id: `${id}-title`}, title), element("p", {class: "note"}, note),
            element("ul", {class: "keys"}, ...this.keys.map(k => k.row)), this.svg, this.says, this.numbers);
        this.svg.addEventListener("pointermove", event => this.point(event));
        this.svg.addEventListener("pointerleave", () => this.onCursor(null));
        this.svg.addEventListener("blur", () => this.onCursor(null));
        this.svg.addEventListener("keydown", event => this.step(event));
    }

    // points: [{time, values: [number or null, one for each series]}], oldest first; from and to: seconds.
    show(points, from, to) {
        this.points = points;
        this.from = from;
        this.to = to;
        this.draw();
        this.fillTable();
    }

    // The cursor is shared by all charts: a time in seconds, or null.
    setCursor(time) {
        this.cursor = time;
        this.draw();
    }

    x(time) {
        return this.left + ((time - this.from) / (this.to - this.from)) * (this.width - this.left - 8);
    }

    y(value) {
        return this.height - 22 - (value / this.top) * (this.height - 32);
    }

    // The size of the box on the screen, so that letters and strokes keep theirs. Asked for all charts before the first
    // is drawn: each drawing would make the browser lay out anew.
    measure() {
        this.width = Math.max(this.svg.clientWidth, 120);
        this.height = Math.max(this.svg.clientHeight, 80);
    }

    draw() {
        this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
        const values = this.points.flatMap(point => point.values).filter(value => value !== null);
        const steps = this.what.most !== undefined ? [0, 0.25, 0.5, 0.75, 1].map(s => s * this.what.most)
            : ticks(Math.max(...values, this.what.least), 4);
        this.top = steps[steps.length - 1];
        this.left = 56;
        const marks = values.length > 0 ? steps : [0]; // without a value there is no scale
        const labels = marks.map(value => this.what.unit(value, this.top));
        this.svg.replaceChildren(...this.axes(marks, labels), ...this.lines(), ...this.cursorLine());
        if (values.length === 0) {
            const middle = {x: (this.left + this.width) / 2, y: this.height / 2 - 8};
            this.svg.append(element("svg:text", {class: "empty", ...middle}, "nothing in this time"));
        }
        this.tell();
    }

    axes(steps, labels) {
        const made = [];
        steps.forEach((value, i) => {
            const y = Math.round(this.y(value)) + 0.5;
            const kind = i === 0 ? "base" : "rule";
            made.push(element("svg:line", {class: kind, x1: this.left, x2: this.width - 8, y1: y, y2: y}),
                element("svg:text", {class: "tick end", x: this.left - 6, y: y + 3.5}, labels[i]));
        });
        const span = this.to - this.from;
        const step = span / (this.width < 420 ? 2 : span > 60 ? 5 : 4);
        for (let ago = 0; ago <= span + 0.5; ago += step) {
            const place = ago === 0 ? "end" : ago + step > span + 0.5 ? "start" : "middle";
            made.push(element("svg:text", {class: `tick ${place}`, x: this.x(this.to - ago), y: this.height - 6},
                ago === 0 ? "now" : span > 60 ? `−${+(ago / 60).toFixed(1)} min` : `−${Math.round(ago)} s`));
        }
        return made;
    }

    // Each line as runs of neighbours; a run of one is a dot. Where points are missing, there is a gap.
    lines() {
        const made = [];
        this.what.series.forEach((line, s) => {
            let run = [];
            let last = null;
            const finish = () => {
                if (run.length > 0) {
                    made.push(...this.run(line, run));
                }
                run = [];
            };
            for (const point of this.points) {
                const value = point.values[s];
                if (value === null || point.first || (last !== null && point.time - last > 7)) {
                    finish();
                }
                if (value !== null) {
                    run.push([this.x(point.time), this.y(value)]);
                }
                last = point.time;
            }
            finish();
        });
        return made;
    }

    run(line, run) {
        if (run.length === 1) {
            const [cx, cy] = run[0];
            return [element("svg:circle", {class: `dot ${line.kind}`, cx, cy, r: 2})];
        }
        const path = run.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L");
        const made = [element("svg:path", {class: `line ${line.kind}`, d: `M${path}`})];
        if (line.area) {
            const floor = this.y(0).toFixed(1);
            made.unshift(element("svg:path", {class: `area ${line.kind}`,
                d: `M${run[0][0].toFixed(1)} ${floor}L${path}L${run[run.length - 1][0].toFixed(1)} ${floor}Z`}));
        }
        return made;
    }

    // The point that the cursor is at, else the newest.
    at() {
        if (this.cursor === null || this.points.length === 0) {
            return this.points[this.points.length - 1] || null;
        }
        return this.points.reduce((best, point) =>
            (Math.abs(point.time - this.cursor) < Math.abs(best.time - this.cursor) ? point : best));
    }

    cursorLine() {
        const point = this.at();
        this.keys.forEach((key, s) => {
            const value = point === null ? null : point.values[s];
            key.value.textContent = value === null ? "–" : this.what.unit(value, value);
        });
        if (this.cursor === null || point === null) {
            return [];
        }
        const x = this.x(point.time);
        const isRight = x > this.width / 2;
        const when = `${ago(this.to - point.time, "s", "min")} ago`;
        const made = [element("svg:line", {class: "cursor", x1: x, x2: x, y1: 8, y2: this.height - 22}),
            element("svg:text", {class: isRight ? "tick end" : "tick start", x: x + (isRight ? -5 : 5), y: 14}, when)];
        this.what.series.forEach((line, s) => {
            if (point.values[s] !== null) {
                made.push(element("svg:circle", {class: `dot ${line.kind}`, cx: x, cy: this.y(point.values[s]), r: 3}));
            }
        });
        return made;
    }

    // What the picture says, for who does not see it.
    tell() {
        const point = this.at();
        const words = this.what.series.map((line, s) => {
            const value = point === null ? null : point.values[s];
            return `${line.name} ${value === null ? "none" : this.what.unit(value, value)}`;
        });
        const when = this.cursor === null || point === null ? "Now" : `${ago(this.to - point.time, "seconds", "minutes")} ago`;
        const said = `${when}: ${words.join(", ")}`;
        if (this.says.textContent !== said) {
            this.says.textContent = said;
        }
    }

    fillTable() {
        if (!this.numbers.open) {
            return;
        }
        const unit = value => (value === null ? "–" : this.what.unit(value, value));
        this.body.replaceChildren(...this.what.series.map((line, s) => {
            const values = this.points.map(point => point.values[s]).filter(value => value !== null);
            const now = this.points.length === 0 ? null : this.points[this.points.length - 1].values[s];
            const of = values.length === 0 ? [now, null, null, null]
                : [now, Math.min(...values), values.reduce((a, b) => a + b, 0) / values.length, Math.max(...values)];
            return element("tr", {}, element("th", {scope: "row"}, line.name),
                ...of.map(value => element("td", {}, unit(value))));
        }));
    }

    point(event) {
        const box = this.svg.getBoundingClientRect();
        const share = (event.clientX - box.left - this.left) / (this.width - this.left - 8);
        this.onCursor(this.from + Math.min(Math.max(share, 0), 1) * (this.to - this.from));
    }

    step(event) {
        const move = {ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity}[event.key];
        if (event.key === "Escape") {
            this.onCursor(null);
        }
        if (move === undefined || this.points.length === 0) {
            return;
        }
        event.preventDefault();
        const index = this.points.indexOf(this.at()) + move;
        this.onCursor(this.points[Math.min(Math.max(index, 0), this.points.length - 1)].time);
    }
}
