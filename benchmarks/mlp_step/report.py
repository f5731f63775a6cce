#!/usr/bin/env python3
"""Turns what `./run bench mlp_step --json FILE` wrote into tables in docs/performance.md.

    python3 benchmarks/mlp_step/report.py FILE [--docs docs]
"""
import argparse
import json
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).parents[1] / folder) for folder in (".", "peers")]
from page import DOCS, fill, markdown_table, versions_text
from recipe import parse
from step_table import StepTable

COMMAND = "./run bench mlp_step --json FILE && python3 benchmarks/mlp_step/report.py FILE"


def task_sentence(name, words):
    task = parse(words.split())
    optimizer = "Adam" if task.optimizer == "adam" else f"SGD with momentum {task.momentum:g}" if task.momentum else "SGD"
    activation = {"relu": "ReLU", "gelu": "GELU"}[task.activation]
    return (f"- {name}: {'-'.join(map(str, task.sizes))}, {activation}, dropout {task.drop:g}, batch {task.batch}, "
            f"{optimizer}, {task.dtype}")


def block(data):
    table = StepTable(data["rows"])
    parts = ["\n".join(task_sentence(name, words) for name, words in data["tasks"].items()),
             f"{data['device']}, {data['date']}, {versions_text(data['versions'])}; medians of {data['rounds']} rounds, "
             f"{data['steps_per_graph']} steps in a graph. Made by\n\n    {COMMAND}",
             markdown_table(table.header(), table.body())]
    if large := table.large():
        parts.append(markdown_table(*large))
    if remarks := table.remarks():
        parts.append("\n".join(f"- {remark}" for remark in remarks))
    return "\n\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("--docs", type=pathlib.Path, default=DOCS)
    options = parser.parse_args()
    fill(options.docs / "performance.md", "mlp_step", block(json.loads(options.results.read_text())))


if __name__ == "__main__":
    main()
