#!/usr/bin/env python3
"""Softmax, norms, batch norms and gated linear units of 4096 x 4096 on the GPU: sinter beside PyTorch, torch.compile and attorch.

    ./run bench rows --attorch DIR
    python3 benchmarks/peers/rows.py --sinter build/release/bin/bench_rows --attorch DIR

Forward is that of training; backward is its own, from a fixed gradient, to all inputs and parameters. Peers run from
CUDA graphs, so neither Python nor launches count. Percentages are of a copy of as many bytes as must move, in the same
process.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

from layers import load_attorch

ROWS = COLUMNS = 4096
TURNS, LAUNCHES = 6, 24


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sinter", required=True, help="the program bench_rows")
    parser.add_argument("--attorch", help="a checkout of github.com/BobMcDear/attorch")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", help="also write all results to this file")
    return parser.parse_args()


def run_sinter(options):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "sinter.json"
        if subprocess.run([options.sinter, "--json", str(path), "--rounds", str(options.rounds)]).returncode != 0:
            sys.exit("rows.py: sinter's own program failed, so there is nothing to compare with")
        return {(r["name"], r["direction"], r["dtype"]): r for r in json.loads(path.read_text())}


def torch_modules(torch):
    class SwiGLU(torch.nn.Module):
        def forward(self, x):
            a, b = x.chunk(2, dim=-1)
            return a * torch.nn.functional.silu(b)

    return {"softmax": torch.nn.Softmax(-1), "log_softmax": torch.nn.LogSoftmax(-1),
            "softmax, dropout": torch.nn.Sequential(torch.nn.Softmax(-1), torch.nn.Dropout(0.1)),
            "layer_norm": torch.nn.LayerNorm(COLUMNS), "rms_norm": torch.nn.RMSNorm(COLUMNS, eps=1e-5),
            "layer_norm, gelu, dropout": torch.nn.Sequential(torch.nn.LayerNorm(COLUMNS), torch.nn.GELU(),
                                                             torch.nn.Dropout(0.1)),
            "rms_norm, silu, dropout": torch.nn.Sequential(torch.nn.RMSNorm(COLUMNS, eps=1e-5), torch.nn.SiLU(),
                                                           torch.nn.Dropout(0.1)),
            "batch_norm": torch.nn.BatchNorm1d(COLUMNS), "swiglu": SwiGLU()}


def attorch_modules(torch, attorch):
    return {"softmax": attorch.Softmax(-1), "log_softmax": attorch.LogSoftmax(-1),
            "softmax, dropout": torch.nn.Sequential(attorch.Softmax(-1), attorch.Dropout(0.1)),
            "layer_norm": attorch.LayerNorm(COLUMNS), "rms_norm": attorch.RMSNorm(COLUMNS, eps=1e-5),
            "layer_norm, gelu, dropout": torch.nn.Sequential(attorch.LayerNorm(COLUMNS), attorch.GELU(drop_p=0.1)),
            "rms_norm, silu, dropout": torch.nn.Sequential(attorch.RMSNorm(COLUMNS, eps=1e-5), attorch.SiLU(drop_p=0.1)),
            "batch_norm": attorch.BatchNorm1d(COLUMNS), "swiglu": attorch.GLU(-1, act_func="silu")}


class Timer:
    """Microseconds a launch, from a CUDA graph."""

    def __init__(self, torch, launch):
        self.torch, self.launch = torch, launch
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            for i in range(TURNS):
                launch(i)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.kept = [launch(i % TURNS) for i in range(LAUNCHES)]

    def time(self):
        with self.torch.cuda.stream(self.stream):
            self.begin.record()
            self.graph.replay()
            self.end.record()
        self.end.synchronize()
        return 1e3 * self.begin.elapsed_time(self.end) / LAUNCHES


def time_module(torch, module, xs, rounds):
    """(forward, backward), medians."""
    xs = [x.detach().clone().requires_grad_() for x in xs]
    forward = Timer(torch, lambda i: module(xs[i]))
    times = [statistics.median(forward.time() for _ in range(rounds))]
    del forward
    ys = [module(x) for x in xs]
    inputs = [[x, *module.parameters()] for x in xs]
    dys = [torch.randn_like(y) for y in ys]
    backward = Timer(torch, lambda i: torch.autograd.grad(ys[i], inputs[i], dys[i], retain_graph=True))
    return times + [statistics.median(backward.time() for _ in range(rounds))]


def main():
    options = parse_arguments()
    import torch
    if not torch.cuda.is_available():
        sys.exit("rows.py: PyTorch sees no GPU")
    ours = run_sinter(options)
    systems = {"PyTorch": torch_modules(torch),
               "torch.compile": {name: torch.compile(module) for name, module in torch_modules(torch).items()}}
    attorch, why_not = load_attorch(options.attorch)
    if attorch is None:
        print(f"attorch: {why_not}")
    else:
        systems["attorch"] = attorch_modules(torch, attorch)
    rows = []
    for dtype in ("float32", "bfloat16"):
        xs = [torch.randn(ROWS, COLUMNS, device="cuda", dtype=getattr(torch, dtype)) for _ in range(TURNS)]
        to = [torch.empty_like(x) for x in xs]
        copy_timer = Timer(torch, lambda i: to[i].copy_(xs[i]))
        copy = statistics.median(copy_timer.time() for _ in range(options.rounds)) / 2
        for name in torch_modules(torch):
            for direction in ("forward", "backward"):
                mine = ours[name, direction, dtype]
                rows.append({"system": "sinter", "name": name, "direction": direction, "dtype": dtype,
                             "us": mine["us"], "percent": mine["percent"]})
            for system, modules in systems.items():
                tensors = {"swiglu": (1.5, 2.5), "batch_norm": (3, 5)}.get(name, (2, 3))
                try:
                    times = time_module(torch, modules[name].to("cuda", getattr(torch, dtype)), xs, options.rounds)
                except Exception as error:  # a peer that cannot is a row that says so
                    print(f"{system} {name} {dtype}: {str(error).splitlines()[0][:200]}")
                    torch.cuda.synchronize()
                    continue
                for direction, us, moved in zip(("forward", "backward"), times, tensors):
                    rows.append({"system": system, "name": name, "direction": direction, "dtype": dtype, "us": us,
                                 "percent": 100 * copy * moved / us})
    names = ["sinter", *systems]
    print(f"\n{'% of the copy':36}" + "".join(f"{system:>16}" for system in names))
    found = {(r["system"], r["name"], r["direction"], r["dtype"]): r["percent"] for r in rows}
    for name in torch_modules(torch):
        for dtype in ("float32", "bfloat16"):
            cells = [" / ".join(f"{found[key]:.0f}" if (key := (system, name, direction, dtype)) in found else "-"
                                for direction in ("forward", "backward")) for system in names]
            print(f"{name + ' ' + dtype:36}" + "".join(f"{cell:>16}" for cell in cells))
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"device": torch.cuda.get_device_name(),
                                                          "torch": torch.__version__, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
