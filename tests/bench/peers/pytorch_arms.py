"""Arms of tests/bench/peers/pytorch_step.py: ways in which PyTorch takes the same training step. Needs no PyTorch."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Arm:
    """`form` of bf16: "copies" (bf16 parameters; AdamW updates float32 master copies of them) or "autocast" (float32 parameters, cast for
    each product). `attention`: the only kernel allowed, "flash" or "cudnn"; otherwise PyTorch chooses. `mode` of torch.compile; None for
    an eager step. `loss_compiled`: the loss lies inside what is compiled, so that Inductor fuses it with the last product's output."""
    name: str
    form: str = ""
    attention: str = ""
    mode: str | None = None
    loss_compiled: bool = True

    def seconds_needed(self, device):
        """Guesses the time of one model, warm-up included. On a CPU few cores compile."""
        if self.mode is None:
            return 12
        return (45 if self.mode == "default" else 90) * (1 if device == "cuda" else 2)


AUTOTUNE = "max-autotune-no-cudagraphs"
ARMS = {  # by precision; the most informative arm first
    "bf16": [
        Arm("eager-copies", "copies"),
        Arm("compiled-copies", "copies", mode="default"),
        Arm("eager-copies-cudnn", "copies", attention="cudnn"),
        Arm("eager-autocast", "autocast"),
        Arm("eager-copies-flash", "copies", attention="flash"),
        Arm("compiled-autocast", "autocast", mode="default"),
        Arm("compiled-copies-max-autotune", "copies", mode=AUTOTUNE),
        Arm("compiled-autocast-max-autotune", "autocast", mode=AUTOTUNE),
    ],
    "f32": [
        Arm("eager"),
        Arm("compiled", mode="default"),
        Arm("compiled-max-autotune", mode=AUTOTUNE),
        Arm("compiled-loss-outside", mode="default", loss_compiled=False),
    ],
}


def select(text, precision):
    """Returns the arms that `text` names ("all", or names separated by commas). Throws ValueError for a name that there is not."""
    arms = {arm.name: arm for arm in ARMS[precision]}
    if text == "all":
        return list(arms.values())
    for name in text.split(","):
        if name not in arms:
            raise ValueError(f"there is no arm '{name}' in {precision}; there are: all, {', '.join(arms)}")
    return [arm for arm in arms.values() if arm.name in text.split(",")]


def reason_to_leave_out(arm, device, seconds_left):
    """Returns why `arm` cannot run now, or None."""
    if arm.attention and device == "cpu":
        return f"attention by {arm.attention} alone needs a GPU"
    needed = arm.seconds_needed(device)
    if seconds_left < needed:
        return f"it needs about {needed} s, and {max(0, seconds_left):.0f} s are left until --end"
    return None
