"""The stages of tests/gpu/first_contact: the most needed first."""
import typing


class Entry(typing.NamedTuple):
    name: str
    seconds: int  # limit
    module: str  # has a function of the stage's name
    content: str


STAGES = [
    Entry("machine", 60, "machine", "card, libraries, copy rate and matrix rate: the ceilings of later figures"),
    Entry("device", 30, "contract", "device contract"),
    Entry("kernels", 100, "contract", "kernel contract and sizes of real models, with and without CUDA graphs"),
    Entry("losses", 60, "losses", "losses beside the CPU's and PyTorch's"),
    Entry("step", 75, "steps", "training steps of Weft"),
    Entry("peers", 130, "steps", "the same steps in PyTorch"),
    Entry("runs", 90, "runs", "four devices on one GPU: losses, a killed device, resumed runs, bf16"),
    Entry("sanitizer", 50, "tools", "Weft's kernels under compute-sanitizer"),
    Entry("ranks", 60, "ranks", "NCCL between two processes on one GPU"),
    Entry("profile", 45, "tools", "time and memory traffic of each kernel, by ncu"),
    Entry("again", 25, "steps", "the first training step once more"),
]
