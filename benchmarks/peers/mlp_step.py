#!/usr/bin/env python3
"""Whole training steps: sinter beside PyTorch, torch.compile, CUDA graphs, JAX and tiny-cuda-nn, in one run.

    ./run bench mlp_step [--only M1,M3] [--rounds 5] [--json FILE]
    python3 benchmarks/peers/mlp_step.py --sinter build/release/bin/bench_mlp_step

Every peer is a process that holds one task at a time (step_peer.py); in a round each system takes its turn on it, and
medians of the rounds count. A peer that is missing, fails or takes too long is a row that says why.
"""
import argparse
import datetime
import json
import pathlib
import queue
import statistics
import subprocess
import sys
import tempfile
import threading

import recipe as recipes
from step_table import StepTable

HERE = pathlib.Path(__file__).parent
TORCH = "torch_step.py"
PEERS = {  # name: script, its modes
    "PyTorch": (TORCH,),
    "torch.compile": (TORCH, "compile"),
    "PyTorch, graph": (TORCH, "graph"),
    "torch.compile, graph": (TORCH, "compile", "graph"),
    "PyTorch, autocast": (TORCH, "autocast"),
    "PyTorch, autocast, graph": (TORCH, "autocast", "graph"),
    "torch.compile, autocast, graph": (TORCH, "compile", "autocast", "graph"),
    "JAX": ("jax_step.py",),
    "JAX, scan": ("jax_step.py", "scan"),
    "tiny-cuda-nn, graph": ("tinycudann_step.py", "graph"),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    split = lambda text: [part.strip() for part in text.split(",") if part.strip()]
    parser.add_argument("--sinter", required=True, help="the program bench_mlp_step")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: to try this out")
    parser.add_argument("--only", type=split, help="tasks, separated by commas (default: all)")
    parser.add_argument("--peers", help="those whose name holds this word, e.g. graph or jax; \"\": none")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps-per-graph", type=int, default=64, help="for sinter and for PyTorch")
    parser.add_argument("--limit", type=float, default=240, help="seconds that a peer may take for an answer")
    parser.add_argument("--json", help="also write all results to this file")
    return parser.parse_args()


class Peer:
    """A process that answers requests, and is started anew for the next task where it crashed or took too long."""

    def __init__(self, name, script, arguments, limit):
        self.name, self.limit = name, limit
        self.command = [sys.executable, "-B", str(HERE / script), *arguments]
        self.missing = None  # why it cannot run here at all
        self.start()

    def start(self):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(self.command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors)
        self.answers = queue.Queue()
        threading.Thread(target=self.read, args=(self.process.stdout, self.answers), daemon=True).start()

    @staticmethod
    def read(lines, answers):
        for line in lines:
            answers.put(line)
        answers.put(None)

    def answer(self):
        """What it says next, {"problem": why} where it does not."""
        try:
            line = self.answers.get(timeout=self.limit)
        except queue.Empty:
            self.close(patience=0)
            return {"problem": f"took more than {self.limit:g} s"}
        if line is None:
            self.close()
            self.errors.seek(0)
            last = (self.errors.read().strip().splitlines() or ["it said nothing"])[-1]
            return {"problem": f"ended with status {self.status}: {last[:300]}"}
        return json.loads(line)

    def ask(self, request):
        if self.missing is not None:
            return {"problem": self.missing}
        if self.process is None:
            self.start()
            if "problem" in (said := self.answer()):
                return said
        try:
            print(request, file=self.process.stdin, flush=True)
        except OSError:
            pass  # it has ended, which answer() finds
        return self.answer()

    def close(self, patience=10):
        """Lets it end by itself, with its own children, if it does so soon."""
        if self.process is None:
            return
        try:
            self.process.stdin.close()
            self.status = self.process.wait(patience)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.status = self.process.wait()
        self.process = None


def start_peers(options):
    """All that were asked for, those that cannot run here too, and what they said of versions and the device."""
    wanted = {name: how for name, how in PEERS.items()
              if options.peers is None or (options.peers and options.peers.lower() in name.lower())}
    common = [f"device={options.device}", f"steps={options.steps_per_graph}"]
    peers = [Peer(name, script, [*modes, *common], options.limit) for name, (script, *modes) in wanted.items()]
    versions, device = {}, None
    for peer in peers:  # all of them are starting meanwhile
        said = peer.answer()
        if "problem" in said:
            peer.missing = said["problem"]
            continue
        versions |= said["versions"]
        device = device or said["device"]
    return peers, versions, device


def read_tasks(options):
    """Words of each task by name, as sinter's program lists them."""
    command = [options.sinter, "--tasks"] + (["--only", ",".join(options.only)] if options.only else [])
    listed = subprocess.run(command, capture_output=True, text=True)
    if listed.returncode != 0:
        sys.exit(f"mlp_step.py: {' '.join(command)}: {listed.stderr.strip() or listed.stdout.strip()}")
    return dict(line.split(" ", 1) for line in listed.stdout.splitlines())


def run_sinter(options, task, *modes):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "sinter.json"
        command = [options.sinter, "--only", task, "--device", options.device, "--json", str(path), "--runs", "3",
                   "--steps-per-graph", str(options.steps_per_graph), *modes]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit)
        except subprocess.TimeoutExpired:
            return {"problem": f"took more than {options.limit:g} s"}, {}
        if not path.exists():
            return {"problem": (done.stderr.strip() or f"ended with status {done.returncode}").splitlines()[-1]}, {}
        written = json.loads(path.read_text())
        row = written["rows"][0]
        if not row["problem"]:
            del row["problem"]
        if not row["replayed"] and options.device == "cuda":
            row["note"] = "ran without graphs"
        return row, written["versions"]


def result_of(system, task, flops, rounds):
    """One row of what a system answered in each round."""
    row = {"system": system, "task": task} | rounds[-1]
    if "problem" in row:
        return {key: row[key] for key in ("system", "task", "problem")}
    row["rounds"] = [answer["us"] for answer in rounds]
    row["us"] = statistics.median(row["rounds"])
    row["tflops"] = flops / row["us"] * 1e-6
    row.pop("runs", None)
    if not row["last_loss"] < row["first_loss"]:
        row["problem"] = f"learnt nothing: loss {row['first_loss']:.3f}, then {row['last_loss']:.3f}"
    return row


def time_task(task, words, peers, options, versions):
    recipe = recipes.parse(words.split())
    ours = {"sinter": ()}
    if recipe.dtype == "bfloat16":
        ours["sinter, autocast"] = ("--autocast",)
    ready, answers = [], {name: [] for name in ours}
    for peer in peers:
        if "autocast" in peer.name and recipe.dtype != "bfloat16":
            continue
        answers[peer.name] = [peer.ask(f"prepare {task} {words}")]
        if "problem" not in answers[peer.name][0]:
            ready.append(peer)
            answers[peer.name] = []
    for _ in range(options.rounds):
        for name, modes in ours.items():
            row, said = run_sinter(options, task, *modes)
            versions |= said
            answers[name].append(row)
        for peer in list(ready):
            answers[peer.name].append(peer.ask("time"))
            if "problem" in answers[peer.name][-1]:
                ready.remove(peer)
        if any("problem" in answers[name][-1] for name in ours):
            break
    return [result_of(system, task, recipe.flops, rounds) for system, rounds in answers.items()]


def print_aligned(header, body):
    widths = [max(len(line[i]) for line in [header, *body]) for i in range(len(header))]
    for line in [header, *body]:
        print(f"{line[0]:{widths[0]}}" + "".join(f"  {cell:>{width}}" for cell, width in zip(line[1:], widths[1:])))


def print_tables(rows):
    table = StepTable(rows)
    print()
    print_aligned(table.header(), table.body())
    if large := table.large():
        print()
        print_aligned(*large)
    print()
    for remark in table.remarks():
        print(remark)


def main():
    options = parse_arguments()
    tasks = read_tasks(options)
    peers, versions, device = start_peers(options)
    results = {"device": device or options.device, "date": datetime.date.today().isoformat(), "rounds": options.rounds,
               "steps_per_graph": options.steps_per_graph, "tasks": tasks, "versions": versions, "rows": []}
    try:
        for task, words in tasks.items():
            results["rows"] += time_task(task, words, peers, options, versions)
            print(f"{task}: done", flush=True)
            if options.json:  # each time: what is measured is not lost
                pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    finally:
        for peer in peers:
            peer.close()
    print_tables(results["rows"])
    if any(row["system"] == "sinter" and "problem" in row for row in results["rows"]):
        sys.exit(1)


if __name__ == "__main__":
    main()
