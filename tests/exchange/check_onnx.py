"""Checks the ONNX files of exchange_cases: by the onnx package, and against onnxruntime's outputs.

usage: check_onnx.py EXCHANGE_CASES
"""

import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import onnx
    import onnxruntime
    import safetensors
    from safetensors.numpy import load_file
except ImportError as missing:
    print(f"SKIPPED: {sys.executable} has no {missing.name} "
          "(pip install onnx onnxruntime safetensors numpy)")
    sys.exit(0)

TOLERANCE = 1e-5


def largest_error(got, expected):
    if got.shape != expected.shape:
        return numpy.inf
    got, expected = got.astype(numpy.float64), expected.astype(numpy.float64)
    error = numpy.abs(got - expected) / numpy.maximum(1, numpy.abs(expected))
    error[got == expected] = 0  # infinities
    return numpy.nan_to_num(error, nan=numpy.inf).max()


def check(path):
    """The largest error of a case; what is wrong otherwise is an exception."""
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    batch = model.graph.input[0].type.tensor_type.shape.dim[0]
    assert batch.dim_param == "batch", "the batch is not left open"
    with safetensors.safe_open(path.with_suffix(".weights"), "numpy") as weights:
        names = set(weights.keys())
    named = {value.name for value in model.graph.initializer if value.name in names}
    # A count of batches is no part of what a model computes.
    left = {name for name in names - named if not name.endswith("num_batches_tracked")}
    assert not left, f"no initializer is named {sorted(left)}"
    values = load_file(path.with_suffix(".values"))
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (whole,) = session.run(["output"], {"input": values["input"]})
    error = largest_error(whole, values["output"])
    return error, len(values["input"])


def main():
    worst, wrong, cases = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], "onnx", folder], check=True)
        for path in sorted(pathlib.Path(folder).glob("*.onnx")):
            cases += 1
            try:
                error, inputs = check(path)
                worst = max(worst, error)
                if error > TOLERANCE:
                    wrong += 1
                text = onnx.load(path).metadata_props[0].value
                print(f"{path.stem:20} {inputs} inputs, error {error:.1e}  {text}")
            except Exception as failure:  # whatever it is, this case is not right
                wrong += 1
                print(f"{path.stem:20} {type(failure).__name__}: {failure}")
    print(f"{cases} models, {wrong} wrong, largest error {worst:.1e} (at most {TOLERANCE:.0e}); "
          f"onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}")
    sys.exit(0 if cases > 0 and wrong == 0 else 1)


main()
