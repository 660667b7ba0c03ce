"""Shapes of the models of tests/bench/training_step, and the operations of one training step. Needs no PyTorch."""

GPTS = {  # layers, width, heads, sequence, batch, vocabulary
    "1.3b": (24, 2048, 16, 1024, 8, 50304),
    "350m": (24, 1024, 16, 1024, 16, 50304),
    "124m": (12, 768, 12, 1024, 32, 50304),
    "large": (6, 384, 6, 256, 8, 4096),
    "small": (4, 128, 4, 128, 16, 2048),
    "tiny": (2, 64, 2, 32, 2, 128),
}
U_TRANSFORMERS = {  # height, width, classes, levels, channels, group size, head width, batch
    "u-large": (256, 256, 8, 4, 64, 16, 64, 16),
    "u-small": (112, 96, 8, 3, 32, 8, 32, 4),
    "u-tiny": (16, 24, 3, 2, 8, 4, 8, 2),
}
MODELS = [*GPTS, *U_TRANSFORMERS]
ATTENDED_SKIPS = 3  # A U-Transformer's deepest levels whose skip connections pass an attention gate.


def batch_of(model):
    """Sequences or pictures of one step."""
    return GPTS[model][4] if model in GPTS else U_TRANSFORMERS[model][-1]


def items_per_step(model, batch):
    """Tokens of a GPT's step, pictures of a U-Transformer's."""
    return batch * GPTS[model][3] if model in GPTS else batch


def matmul_flops(model, batch):
    """Operations of the matrix products, convolutions and attention of one step: forward and backward. Causal attention counts as its
    half, as `training_step` counts it."""
    if model in U_TRANSFORMERS:
        return batch * u_transformer_flops(*U_TRANSFORMERS[model][:5])
    layers, width, _, sequence, _, vocabulary = GPTS[model]
    tokens = batch * sequence
    attention = 7 * tokens * (sequence + 1) * width
    return layers * (6 * tokens * 12 * width * width + attention) + 6 * tokens * width * vocabulary


def u_transformer_flops(height, width, classes, levels, channels):
    """Of one picture. A product costs 2 operations per multiplication, forward and for each of its two gradients."""

    def pixels(level):
        return (height >> level) * (width >> level)

    def convolution(level, inputs, outputs, kernel=3):
        return 6 * pixels(level) * kernel * kernel * inputs * outputs

    def twice(level, inputs, outputs):
        return convolution(level, inputs, outputs) + convolution(level, outputs, outputs)

    def attention(level, width_):
        return 14 * pixels(level) ** 2 * width_

    deepest = channels << levels
    total = twice(levels, deepest, deepest) + 4 * convolution(levels, deepest, deepest, 1) + attention(levels, deepest)
    for level in range(levels):
        own, deep = channels << level, channels << (level + 1)
        total += twice(level, own if level else 1, own) + convolution(level + 1, own, deep)
        if levels - level <= ATTENDED_SKIPS:
            total += convolution(level + 1, own, own, 2) + attention(level + 1, own)
            total += 2 * convolution(level + 1, deep, own, 1) + 2 * convolution(level + 1, own, own, 1)
        total += convolution(level, deep, own) + twice(level, 2 * own, own)
    total -= pixels(0) * 2 * 9 * channels  # The pixels need no gradient.
    return total + convolution(0, channels, classes, 1)
