#!/usr/bin/env python3
"""Turns what `./run bench elementwise --json FILE` wrote into tables in docs/performance.md and docs/elementwise.svg.

    python3 benchmarks/elementwise/report.py FILE [--docs docs]
"""
import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from page import DOCS, fill, markdown_table, versions_text

COMMAND = "./run bench elementwise --attorch DIR --json FILE && python3 benchmarks/elementwise/report.py FILE"
DIRECTIONS = ("forward", "backward")
LABELS = {"eager": "PyTorch", "compile": "torch.compile"}


class Results:
    """The rows of one dropout probability, by (system, name, dtype, direction, n)."""

    def __init__(self, data):
        self.p = max(r["p"] for r in data["rows"])
        self.rows = [r for r in data["rows"] if r["p"] == self.p]
        self.by_case = {(r["system"], r["name"], r["dtype"], r["direction"], r["n"]): r for r in self.rows}
        self.systems, self.names, self.dtypes = (list(dict.fromkeys(r[key] for r in self.rows))
                                                 for key in ("system", "name", "dtype"))
        self.sizes = sorted({r["n"] for r in self.rows}, reverse=True)
        self.peers = [system for system in self.systems if system != "sinter"]

    def percent(self, *case):
        row = self.by_case.get(case)
        return row and row["percent_of_copy"]

    def pair(self, system, name, dtype, n):
        values = [self.percent(system, name, dtype, direction, n) for direction in DIRECTIONS]
        return " / ".join("-" if v is None else f"{v:.0f}" for v in values) if any(values) else ""

    def shared_names(self):
        """The activations that most systems were timed on: those worth showing side by side."""
        counts = {name: len({r["system"] for r in self.rows if r["name"] == name}) for name in self.names}
        return [name for name in self.names if counts[name] == max(counts.values())]


def power(n):
    exponent = n.bit_length() - 1
    return f"2^{exponent}" if 1 << exponent == n else str(n)


def labels(results):
    return [LABELS.get(system, system) for system in results.systems]


def all_activations(results):
    columns = [(dtype, n) for n in results.sizes for dtype in results.dtypes]
    return markdown_table(["forward / backward"] + [f"{dtype} {power(n)}" for dtype, n in columns],
                          [[name] + [results.pair("sinter", name, dtype, n) for dtype, n in columns]
                           for name in results.names])


def smallest(results):
    sentences = []
    for n in results.sizes:
        for dtypes, label in ((("float32",), "float32"), (("float16", "bfloat16"), "16-bit")):
            rows = [r for r in results.rows if r["system"] == "sinter" and r["n"] == n and r["dtype"] in dtypes
                    and r["direction"] in DIRECTIONS]
            if rows:
                low = min(rows, key=lambda r: r["percent_of_copy"])
                sentences.append(f"{label} {power(n)} {low['percent_of_copy']:.1f} ({low['name']} {low['direction']})")
    return "Smallest: " + ", ".join(sentences) + "."


def beside_peers(results):
    rows = []
    for n in results.sizes:
        for dtype in results.dtypes:
            for name in results.shared_names():
                cells = [results.pair(system, name, dtype, n) for system in results.systems]
                if any(cells[1:]):
                    rows.append([f"{name} {dtype} {power(n)}"] + cells)
    return markdown_table(["forward / backward"] + labels(results), rows)


def as_called(results):
    """Forward and backward through the public functions, in microseconds."""
    rows = []
    for n in results.sizes:
        for dtype in results.dtypes:
            for name in results.names:
                times = [results.by_case.get((system, name, dtype, "tape", n)) for system in results.systems]
                if any(times):
                    rows.append([f"{name} {dtype} {power(n)}"] + [f"{t['us']:.1f}" if t else "" for t in times])
    return markdown_table(["us"] + labels(results), rows) if rows else ""


def block(data, results):
    parts = [f"{data['device']}, {data['date']}, {versions_text(data['versions'])}; medians of {data['rounds']} rounds, "
             f"dropout {results.p:g}. Made by\n\n    {COMMAND}",
             "sinter, % of the copy:", all_activations(results), smallest(results)]
    if results.peers:
        parts += ["Beside its peers, % of the copy (torch.compile is above 100 % where it reads a stored mask of one "
                  "byte instead of the input, fewer bytes than are counted):", beside_peers(results)]
    parts += ["![The share of a copy's speed that each system reaches](elementwise.svg)"]
    if called := as_called(results):
        parts += ["As a program calls them, forward and backward with what the host does for it, microseconds:", called]
    return "\n\n".join(parts)


# --- the chart ------------------------------------------------------------------------------------

COLOURS = {"sinter": "#0b7a75", "attorch": "#b45f06", "eager": "#64748b", "compile": "#7c5cbf"}
STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2933 }
  .title { font-weight: 600; font-size: 13px } .value { font-size: 10px } .grid { stroke: #c5ccd3 }
  .copy { stroke: #1f2933; stroke-dasharray: 4 3 } .on { font-size: 9.5px; font-weight: 600 } .back { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #dfe5ea } .grid { stroke: #3d4852 } .copy { stroke: #dfe5ea } .back { fill: #0d1117 }
  }
  text.on { fill: #ffffff }"""
BAR, GAP, LEFT, WIDE, SCALE_END = 11, 10, 84, 330, 125  # the axis ends at SCALE_END %


def bars(results, names, dtype, direction, n, x, y):
    """One panel: horizontal bars, names down, systems side by side."""
    unit = WIDE / SCALE_END
    height = len(names) * (len(results.systems) * BAR + GAP)
    out = [f'<text class="title" x="{x + LEFT}" y="{y - 8}">{dtype} {direction}, {power(n)}</text>']
    for tick in (0, 25, 50, 75, 100):
        at = x + LEFT + tick * unit
        kind = "copy" if tick == 100 else "grid"
        out.append(f'<line class="{kind}" x1="{at:.1f}" x2="{at:.1f}" y1="{y}" y2="{y + height}"/>')
        out.append(f'<text class="value" text-anchor="middle" x="{at:.1f}" y="{y + height + 13}">'
                   f'{"copy" if tick == 100 else tick}</text>')
    for row, name in enumerate(names):
        top = y + row * (len(results.systems) * BAR + GAP) + GAP / 2
        middle = top + len(results.systems) * BAR / 2 + 4
        out.append(f'<text text-anchor="end" x="{x + LEFT - 8}" y="{middle:.1f}">{name}</text>')
        for place, system in enumerate(results.systems):
            value = results.percent(system, name, dtype, direction, n)
            if value is None:
                continue
            length, bar_y = min(value, SCALE_END) * unit, top + place * BAR
            out.append(f'<rect x="{x + LEFT}" y="{bar_y:.1f}" width="{length:.1f}" height="{BAR - 1}" '
                       f'fill="{COLOURS[system]}"><title>{LABELS.get(system, system)}: {value:.1f} %</title></rect>')
            out.append(f'<text class="on" text-anchor="end" x="{x + LEFT + length - 4:.1f}" y="{bar_y + 8.5:.1f}">'
                       f'{value:.0f}</text>')
    return out, height


def chart(results):
    names, n = results.shared_names(), results.sizes[0]
    across = LEFT + WIDE + 40
    out, y = [], 66
    for dtype in results.dtypes:
        for column, direction in enumerate(DIRECTIONS):
            drawn, height = bars(results, names, dtype, direction, n, column * across, y)
            out += drawn
        y += height + 50
    legend = []
    for place, system in enumerate(results.systems):
        legend.append(f'<rect x="{LEFT + place * 120}" y="14" width="12" height="12" fill="{COLOURS[system]}"/>')
        legend.append(f'<text x="{LEFT + place * 120 + 18}" y="24">{LABELS.get(system, system)}</text>')
    width, height = 2 * across, y - 26
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
                      f'height="{height}" role="img" '
                      f'aria-label="Activation and dropout {results.p:g}, percent of a copy\'s bandwidth">',
                      f"<style>{STYLE}\n</style>", f'<rect class="back" width="{width}" height="{height}"/>',
                      *legend, *out, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--docs", type=pathlib.Path, default=DOCS)
    options = parser.parse_args()
    data = json.loads(options.results.read_text())
    results = Results(data)
    fill(options.docs / "performance.md", "elementwise", block(data, results))
    (options.docs / "elementwise.svg").write_text(chart(results))
    print(f"report.py: wrote {options.docs / 'elementwise.svg'}")


if __name__ == "__main__":
    main()
