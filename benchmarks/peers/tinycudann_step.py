"""Training steps by tiny-cuda-nn through its PyTorch module, whole steps in a CUDA graph, for mlp_step.py. Its networks
are float16, without biases and dropout, and know no GELU; its own Adam is for C++ alone, so the optimizers are PyTorch's."""
import step_peer
import torch_step


def start(settings):
    import tinycudann
    about, _ = torch_step.start(settings)
    about["versions"]["tiny-cuda-nn"] = getattr(tinycudann, "__version__", "of unknown version")
    import numpy as np
    import torch
    return about, lambda recipe: TinySteps(np, torch, recipe, settings)


def make_model(torch, recipe):
    import tinycudann
    widths = set(recipe.sizes[1:-1])
    if len(widths) > 1:
        raise step_peer.Cannot("its hidden layers have one width")
    width = widths.pop()
    return tinycudann.Network(recipe.sizes[0], recipe.sizes[-1], {
        "otype": "FullyFusedMLP" if width in (16, 32, 64, 128) else "CutlassMLP",
        "activation": "ReLU", "output_activation": "None",
        "n_neurons": width, "n_hidden_layers": len(recipe.sizes) - 2})


class TinySteps(torch_step.TorchSteps):
    def __init__(self, np, torch, recipe, settings):
        wanted = recipe.batch
        recipe.batch = -(-wanted // 256) * 256  # what its kernels take
        recipe.dtype = "float32"                # of inputs and master weights
        super().__init__(np, torch, recipe, settings, make_model)
        batch = f", batch {recipe.batch} instead of {wanted}" if recipe.batch != wanted else ""
        self.note = f"float16, ReLU, no biases, no dropout{batch}"

    def gather_and_loss(self, inputs, labels, index):
        return self.torch.nn.functional.cross_entropy(self.model(inputs[index]).float(), labels[index])


if __name__ == "__main__":
    step_peer.serve(start)
