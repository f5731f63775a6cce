"""Training steps by PyTorch, for mlp_step.py. Modes: compile (torch.compile of model and loss), graph (whole steps in a
CUDA graph), autocast (float32 weights, bfloat16 products). Its optimizers are the fused ones, its fastest."""
import contextlib

import step_peer


def start(settings):
    import numpy as np
    import torch
    on_gpu = settings.device == "cuda"
    if on_gpu and not torch.cuda.is_available():
        raise step_peer.Cannot("PyTorch sees no GPU")
    if "graph" in settings.modes and not on_gpu:
        raise step_peer.Cannot("CUDA graphs need a GPU")
    torch.set_float32_matmul_precision("high")  # TF32
    about = {"versions": {"torch": torch.__version__}, "device": torch.cuda.get_device_name() if on_gpu else "cpu"}
    return about, lambda recipe: TorchSteps(np, torch, recipe, settings)


def make_model(torch, recipe):
    layers = []
    for inputs, outputs in zip(recipe.sizes, recipe.sizes[1:]):
        layers += [torch.nn.Linear(inputs, outputs),
                   torch.nn.GELU() if recipe.activation == "gelu" else torch.nn.ReLU(), torch.nn.Dropout(recipe.drop)]
    return torch.nn.Sequential(*layers[:-2])


class TorchSteps:
    note = ""

    def __init__(self, np, torch, recipe, settings, make_model=make_model):
        self.torch, self.settings = torch, settings
        self.on_gpu = settings.device == "cuda"
        graph = "graph" in settings.modes
        autocast = "autocast" in settings.modes
        self.steps = settings.steps if graph else 1
        if "compile" in settings.modes:
            torch._dynamo.reset()  # what was compiled for earlier tasks holds on to their tensors
        if self.on_gpu:
            torch.cuda.empty_cache()
        torch.manual_seed(7)
        dtype = getattr(torch, recipe.dtype)
        inputs, labels = (torch.from_numpy(array) for array in step_peer.data(np, recipe))
        self.inputs, self.labels = inputs.to(dtype).to(settings.device), labels.to(settings.device)
        self.orders = list(torch.from_numpy(step_peer.orders(np, recipe, self.steps)).to(settings.device))
        self.at = 0
        self.bytes_before = 0
        if self.on_gpu:
            torch.cuda.reset_peak_memory_stats()
            self.bytes_before = torch.cuda.memory_allocated()

        self.model = make_model(torch, recipe).to(settings.device, torch.float32 if autocast else dtype)
        self.optimizer = self.make_optimizer(recipe, graph)
        self.precision = (lambda: torch.autocast(settings.device, dtype)) if autocast else contextlib.nullcontext
        self.loss_of = self.gather_and_loss
        if "compile" in settings.modes:
            self.loss_of = torch.compile(self.gather_and_loss, dynamic=False)
        self.graph = None
        if graph:
            self.capture()

    def make_optimizer(self, recipe, capturable):
        parameters, optim = self.model.parameters(), self.torch.optim
        if recipe.optimizer == "adam":
            return optim.Adam(parameters, lr=recipe.lr, fused=True, capturable=capturable)
        return optim.SGD(parameters, lr=recipe.lr, momentum=recipe.momentum, fused=True)

    def gather_and_loss(self, inputs, labels, index):
        return self.torch.nn.functional.cross_entropy(self.model(inputs[index]), labels[index])

    def step(self, index):
        self.optimizer.zero_grad(set_to_none=True)
        with self.precision():
            loss = self.loss_of(self.inputs, self.labels, index)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def capture(self):
        torch = self.torch
        self.index = self.orders[0].clone()
        side = torch.cuda.Stream()  # as torch.cuda.graph asks for
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for k in range(3):
                self.step(self.index[k % self.steps])
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.losses = torch.stack([self.step(self.index[k]) for k in range(self.steps)])

    def call(self):
        order = self.orders[self.at]
        self.at = (self.at + 1) % len(self.orders)
        if self.graph is None:
            return self.step(order[0])
        self.index.copy_(order)
        self.graph.replay()
        return self.losses

    def wait(self):
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def floats(self, losses):
        return losses.float().reshape(-1).tolist()

    def peak_bytes(self):
        return self.torch.cuda.max_memory_allocated() - self.bytes_before if self.on_gpu else None


if __name__ == "__main__":
    step_peer.serve(start)
