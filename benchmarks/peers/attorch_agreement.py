#!/usr/bin/env python3
"""Do attorch's fused activation + dropout kernels and sinter's give the same masks and values?

Runs attorch's layers on the GPU with known seeds, and hands inputs and outputs to the program
attorch_agreement of the build, which repeats them with MaskScheme::triton on every device it has:

    python3 benchmarks/peers/attorch_agreement.py --attorch DIR --sinter build/release/bin/attorch_agreement
"""
import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import torch

from layers import find_layer, load_attorch

ELEMENTS = 100003  # odd, so that every kernel has a tail
CASES = [(12345, 0.1), (65535, 0.5), (0, 0.9), (1, 0.1)]  # seed, drop_p
DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}  # torch's names, safetensors'


def write_safetensors(path, tensors, metadata):
    """The format is a JSON header and the bytes, so the package need not be there."""
    header, blobs, offset = {"__metadata__": metadata}, [], 0
    for name, tensor in tensors.items():
        blob = tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes()
        dtype = DTYPES[str(tensor.dtype).removeprefix("torch.")]
        header[name] = {"dtype": dtype, "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def run_attorch(layer, x, dy):
    x = x.clone().requires_grad_()
    y = layer.train()(x)
    (dx,) = torch.autograd.grad(y, x, dy)
    return y, dx


def make_tensors(attorch, names, seed, p, device):
    # attorch draws a layer's seed at each call with random.randint(0, 65535).
    for module in (attorch.act_layers, attorch.dropout_layer):
        module.randint = lambda low, high: seed
    tensors, missing = {}, []
    torch.manual_seed(seed)
    for dtype in DTYPES:
        x = (2 * torch.randn(ELEMENTS)).clamp(-8, 8)
        x[x == 0] = 1  # a zero would hide whether it was dropped
        x, dy = (t.to(device, getattr(torch, dtype)) for t in (x, torch.randn(ELEMENTS)))
        tensors |= {f"x.{dtype}": x, f"dy.{dtype}": dy}
        for name in names:
            layer = attorch.Dropout(p) if name == "dropout" else find_layer(attorch, name, drop_p=p)
            if layer is None:
                missing.append(name)
                continue
            tensors[f"y.{dtype}.{name}"], tensors[f"dx.{dtype}.{name}"] = run_attorch(layer, x, dy)
    return tensors, sorted(set(missing))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attorch", required=True, help="a checkout of github.com/BobMcDear/attorch")
    parser.add_argument("--sinter", required=True, help="the program attorch_agreement")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    attorch, why = load_attorch(options.attorch)
    if attorch is None:
        sys.exit(f"attorch_agreement: {why}")
    names = subprocess.run([options.sinter, "--list"], check=True, capture_output=True, text=True).stdout.split()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "attorch.safetensors"
        for seed, p in CASES:
            tensors, missing = make_tensors(attorch, names, seed, p, options.device)
            if missing:
                print("attorch has no", ", ".join(missing))
            write_safetensors(path, tensors, {"seed": str(seed), "p": repr(p)})
            failed |= subprocess.run([options.sinter, str(path)]).returncode != 0
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
