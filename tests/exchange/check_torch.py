"""Checks that weights go to torch and back: the same names, the same outputs.

usage: check_torch.py EXCHANGE_CASES
"""

import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    from safetensors.torch import load_file, save_file
    from torch import nn
except ImportError as missing:
    print(f"SKIPPED: {sys.executable} has no {missing.name} (pip install torch safetensors)")
    sys.exit(0)

TOLERANCE = 1e-6


class SelfAttention(nn.MultiheadAttention):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads, batch_first=True)

    def forward(self, x):
        return super().forward(x, x, x, need_weights=False)[0]


class Residual(nn.Module):
    def __init__(self, *body):
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x):
        return x + self.body(x)


# As in torch_cases() of cases.cpp.
MODELS = {
    "mlp": lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(12, 7), nn.ReLU(), nn.Dropout(0.25),
        nn.Linear(7, 5, bias=False), nn.GELU(), nn.Linear(5, 3)),
    "norms": lambda: nn.Sequential(
        nn.Linear(6, 8), nn.LayerNorm(8), nn.SiLU(), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.1),
        nn.Linear(8, 6), nn.GLU()),
    "images": lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, groups=2, bias=False), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(6, 3)),
    "sequence": lambda: nn.Sequential(
        nn.Conv1d(4, 8, 3, padding=1), nn.AvgPool1d(2), nn.Mish()),
    "residual": lambda: nn.Sequential(
        nn.Linear(6, 8), Residual(nn.LayerNorm(8), nn.Linear(8, 8), nn.ELU())),
    "attention": lambda: nn.Sequential(
        SelfAttention(8, 2), nn.Sequential(nn.Linear(8, 4), nn.Tanh()), nn.Softmax(-1)),
    "tokens": lambda: nn.Sequential(
        nn.Embedding(11, 4, padding_idx=2), nn.Flatten(), nn.Linear(24, 3)),
}


def largest_error(got, expected):
    if got.shape != expected.shape:
        return float("inf")
    error = (got.double() - expected.double()).abs() / expected.double().abs().clamp(min=1)
    return error.nan_to_num(nan=float("inf")).max().item()


def main():
    torch.manual_seed(3)
    good = True
    with tempfile.TemporaryDirectory() as there, tempfile.TemporaryDirectory() as back:
        subprocess.run([sys.argv[1], "torch", there], check=True)
        written = {path.stem for path in pathlib.Path(there).glob("*.weights")}
        assert written == set(MODELS), f"{written} and {set(MODELS)} differ"
        for name, make in MODELS.items():
            model = make().eval()
            model.load_state_dict(load_file(f"{there}/{name}.weights"), strict=True)
            values = load_file(f"{there}/{name}.values")
            with torch.no_grad():
                error = largest_error(model(values["input"]), values["output"])
            print(f"{name:12} loaded by torch    error {error:.1e}")
            good = good and error <= TOLERANCE

            other = make()
            with torch.no_grad():
                for _, value in [*other.named_parameters(), *other.named_buffers()]:
                    if value.is_floating_point():
                        value += 0.1 * torch.rand_like(value)
                output = other.eval()(values["input"])
            save_file(other.state_dict(), f"{back}/{name}.weights")
            save_file({"input": values["input"], "output": output}, f"{back}/{name}.values")
        good = subprocess.run([sys.argv[1], "back", back]).returncode == 0 and good
    print(f"torch {torch.__version__}, at most {TOLERANCE:.0e}")
    sys.exit(0 if good else 1)


main()
