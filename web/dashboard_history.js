// SPDX-License-Identifier: Apache-2.0
// What the server kept of the last hour (/metrics/history), as metrics of each moment: names and labels are those of
// /metrics, so that the same code reads both. It is outside data: what does not fit is left out.
import {parse} from "./dashboard_metrics.js";

const MAX_ROWS = 5000;

// [{age, families}], oldest first; age in seconds.
export function readHistory({columns, rows}) {
    if (!Array.isArray(columns) || !Array.isArray(rows)) {
        return [];
    }
    // Each column as its family and labels, read once: "name{labels} 0" is a line of /metrics.
    const places = columns.map(column => {
        const [[name, lines]] = [...parse(`${column} 0`), ["", null]];
        return lines === null ? null : {name, labels: lines[0].labels};
    });
    const sums = new Array(columns.length).fill(0);
    const read = [];
    for (const row of rows.slice(-MAX_ROWS)) {
        if (!Array.isArray(row) || row.length !== columns.length + 1 || !row.every(Number.isFinite)) {
            return [];
        }
        const families = new Map();
        places.forEach((place, i) => {
            sums[i] += row[i + 1];
            if (place !== null) {
                const family = families.get(place.name) ?? families.set(place.name, []).get(place.name);
                family.push({labels: place.labels, value: sums[i]});
            }
        });
        read.push({age: row[0] / 1000, families});
    }
    return read;
}
