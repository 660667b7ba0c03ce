"""The models of tests/bench/training_step in PyTorch: same architecture, shapes, initial distribution, names of parameters."""
import json
import math
import os

import torch
import torch.nn.functional as F
from torch import nn

from pytorch_shapes import ATTENDED_SKIPS, GPTS, U_TRANSFORMERS


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, sequence, width = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(batch, sequence, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, sequence, width))
        return x + self.contract(F.gelu(self.expand(self.ln2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, sequence, vocabulary):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.empty(sequence, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.final = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                nn.init.constant_(parameter, 1.0 if ("ln" in name or "final" in name) and name.endswith("weight") else 0.0)
            else:
                residual = "projection" in name or "contract" in name
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if residual else 0.02)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.final(x))

    def named_as_in_weft(self):
        names = {"final.gamma": self.final.weight, "final.beta": self.final.bias, "embedding": self.embedding.weight,
                 "positions": self.positions, "head": self.head.weight}
        for i, block in enumerate(self.blocks):
            for norm in ("ln1", "ln2"):
                names[f"h{i}.{norm}.gamma"], names[f"h{i}.{norm}.beta"] = getattr(block, norm).weight, getattr(block, norm).bias
            for part, layers in (("attention", ("qkv", "projection")), ("mlp", ("expand", "contract"))):
                for layer in layers:
                    linear = getattr(block, layer)
                    names[f"h{i}.{part}.{layer}.weight"], names[f"h{i}.{part}.{layer}.bias"] = linear.weight, linear.bias
        return names

    def loss(self, forward, inputs):
        tokens, targets = inputs
        logits = forward(tokens)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))


class UTransformer(nn.Module):
    """Pictures are [batch, channels, height, width] in channels-last memory."""

    def __init__(self, height, width, classes, levels, channels, group_size, head_width):
        super().__init__()
        self.levels, self.head_width = levels, head_width
        self.names = {}
        self.modules_by_name = nn.ModuleDict()

        def keep(name, module):
            self.modules_by_name[name.replace(".", "/")] = module
            return module

        def convolution(name, inputs, outputs, kernel=3, stride=1):
            module = keep(name, nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2 if kernel % 2 else 0))
            nn.init.normal_(module.weight, std=math.sqrt(2 / (kernel * kernel * inputs)))
            nn.init.zeros_(module.bias)

        def twice(scope, inputs, outputs):
            convolution(f"{scope}.conv1", inputs, outputs)
            keep(f"{scope}.norm1", nn.GroupNorm(outputs // group_size, outputs))
            convolution(f"{scope}.conv2", outputs, outputs)
            keep(f"{scope}.norm2", nn.GroupNorm(outputs // group_size, outputs))

        def linear(name, inputs, outputs):
            module = keep(name, nn.Linear(inputs, outputs))
            nn.init.normal_(module.weight, std=math.sqrt(1 / inputs))
            nn.init.zeros_(module.bias)

        def positions(scope, level, width_):
            parameter = nn.Parameter(torch.empty(height >> level, width >> level, width_))
            nn.init.normal_(parameter, std=0.02)
            self.names[f"{scope}.positions"] = parameter
            self.register_parameter(f"{scope}/positions".replace(".", "/"), parameter)

        for level in range(levels):
            twice(f"down{level}", channels << (level - 1) << 1 if level else 1, channels << level)
            convolution(f"down{level}.shrink", channels << level, channels << (level + 1), stride=2)
        deepest = channels << levels
        twice("bottom", deepest, deepest)
        keep("bottom.attention.norm", nn.LayerNorm(deepest))
        positions("bottom.attention", levels, deepest)
        for name in ("q", "k", "v", "projection"):
            linear(f"bottom.attention.{name}", deepest, deepest)
        for level in reversed(range(levels)):
            own, deep, scope = channels << level, channels << (level + 1), f"up{level}"
            if levels - level <= ATTENDED_SKIPS:
                keep(f"{scope}.gate.deep_norm", nn.LayerNorm(deep))
                positions(f"{scope}.gate", level + 1, deep)
                convolution(f"{scope}.gate.shrink", own, own, kernel=2, stride=2)
                keep(f"{scope}.gate.skip_norm", nn.LayerNorm(own))
                linear(f"{scope}.gate.q", deep, own)
                linear(f"{scope}.gate.k", deep, own)
                linear(f"{scope}.gate.v", own, own)
                linear(f"{scope}.gate.projection", own, own)
            convolution(f"{scope}.grow", deep, own)
            twice(scope, 2 * own, own)
        linear("head", channels, classes)

    def part(self, name):
        return self.modules_by_name[name.replace(".", "/")]

    def twice(self, scope, x):
        for i in (1, 2):
            x = F.silu(self.part(f"{scope}.norm{i}")(self.part(f"{scope}.conv{i}")(x)))
        return x

    def attend(self, scope, asking, values):
        """Multi-head attention of all pixels of `asking` to themselves, with what `values` holds there: [batch, h, w, width]."""
        batch, height, width, _ = asking.shape

        def heads(x):
            return x.view(batch, height * width, -1, self.head_width).transpose(1, 2)

        q, k, v = (heads(self.part(f"{scope}.{name}")(x)) for name, x in (("q", asking), ("k", asking), ("v", values)))
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, height, width, -1)
        return self.part(f"{scope}.projection")(mixed)

    def gated(self, scope, skip, deep):
        asking = self.part(f"{scope}.deep_norm")(deep.permute(0, 2, 3, 1)) + self.names[f"{scope}.positions"]
        small = self.part(f"{scope}.shrink")(skip).permute(0, 2, 3, 1)
        gate = torch.sigmoid(self.attend(scope, asking, self.part(f"{scope}.skip_norm")(small))).permute(0, 3, 1, 2)
        return skip * F.interpolate(gate, scale_factor=2, mode="nearest")

    def forward(self, pixels):
        x = pixels.permute(0, 3, 1, 2)
        skips = []
        for level in range(self.levels):
            x = self.twice(f"down{level}", x)
            skips.append(x)
            x = self.part(f"down{level}.shrink")(x)
        x = self.twice("bottom", x)
        rows = x.permute(0, 2, 3, 1)
        normed = self.part("bottom.attention.norm")(rows) + self.names["bottom.attention.positions"]
        x = (rows + self.attend("bottom.attention", normed, normed)).permute(0, 3, 1, 2)
        for level in reversed(range(self.levels)):
            scope, skip = f"up{level}", skips[level]
            if self.levels - level <= ATTENDED_SKIPS:
                skip = self.gated(f"{scope}.gate", skip, x)
            grown = self.part(f"{scope}.grow")(F.interpolate(x, scale_factor=2, mode="nearest"))
            x = self.twice(scope, torch.cat((skip, grown), dim=1))
        return self.part("head")(x.permute(0, 2, 3, 1))

    def named_as_in_weft(self):
        names = dict(self.names)
        for key, module in self.modules_by_name.items():
            norm = isinstance(module, (nn.LayerNorm, nn.GroupNorm))
            name = key.replace("/", ".")
            names[f"{name}.{'gamma' if norm else 'weight'}"] = module.weight
            names[f"{name}.{'beta' if norm else 'bias'}"] = module.bias
        return names

    def loss(self, forward, inputs):
        pixels, targets, weights = inputs
        logits = forward(pixels.to(self.part("head").weight.dtype)).float()
        losses = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), reduction="none")
        return (losses * weights.reshape(-1)).sum() / losses.numel()


def decays(name, parameter):
    """Weight decay is for matrices and filters, not for biases, norms and a picture's positions."""
    return parameter.dim() >= 2 and not name.endswith("/positions")


def make_model(name):
    if name in GPTS:
        layers, width, heads, sequence, _, vocabulary = GPTS[name]
        return Gpt(layers, width, heads, sequence, vocabulary)
    *shape, _ = U_TRANSFORMERS[name]
    return UTransformer(*shape).to(memory_format=torch.channels_last)


def random_inputs(name, batch, device):
    if name in GPTS:
        sequence, vocabulary = GPTS[name][3], GPTS[name][5]
        return [torch.randint(vocabulary, (batch, sequence), device=device) for _ in range(2)]
    height, width, classes = U_TRANSFORMERS[name][:3]
    return [torch.randn(batch, height, width, 1, device=device), torch.randint(classes, (batch, height, width), device=device),
            torch.ones(batch, height, width, device=device)]


def load_values(model, folder):
    """Initial values that `training_step --dump` wrote: a linear layer's weight is [inputs, outputs...] there, a convolution's
    [height, width, inputs, outputs]."""
    path = os.path.join(folder, "weights.f32")
    values = torch.from_file(path, size=os.path.getsize(path) // 4)
    entries = json.load(open(os.path.join(folder, "weights.json")))
    parameters = model.named_as_in_weft()
    if {entry["name"] for entry in entries} != set(parameters):
        raise SystemExit(f"{folder} has other parameters: {sorted({entry['name'] for entry in entries} ^ set(parameters))}")
    with torch.no_grad():
        for entry in entries:
            parameter, shape = parameters[entry["name"]], entry["shape"]
            value = values[entry["offset"]:entry["offset"] + parameter.numel()].view(shape)
            if parameter.dim() == 4:
                value = value.permute(3, 2, 0, 1)
            elif entry["name"].endswith(".weight") or entry["name"] == "head":
                value = value.reshape(shape[0], -1).T
            parameter.copy_(value.reshape(parameter.shape))


def load_inputs(folder, device):
    """The inputs of every step that `training_step --dump` wrote."""
    described = json.load(open(os.path.join(folder, "inputs.json")))
    path = os.path.join(folder, "inputs.bin")
    content = torch.from_file(path, size=os.path.getsize(path), dtype=torch.uint8)
    steps, at = [], 0
    while at < content.numel():
        inputs = []
        for entry in described:
            size = 4 * math.prod(entry["shape"])
            dtype = {"i32": torch.int32, "f32": torch.float32}[entry["dtype"]]
            value = content[at:at + size].view(dtype).view(entry["shape"])
            inputs.append((value.long() if dtype == torch.int32 else value.clone()).to(device))
            at += size
        steps.append(inputs)
    return steps
