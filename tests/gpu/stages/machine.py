"""Stage `machine`: the card, the libraries that Weft loads, and the ceilings of later figures."""
import os
import pathlib
import platform
import shutil

from stages.stage import json_lines

QUERY = "name,memory.total,driver_version,clocks.sm,clocks.mem,power.limit,ecc.mode.current,mig.mode.current"


def machine(stage):
    stage.say(f"{platform.platform()}, {' '.join(platform.libc_ver())}, Python {platform.python_version()}, "
              f"{os.cpu_count()} processors, {memory_gib():.0f} GiB")
    for tool in ("nvidia-smi", "ncu", "compute-sanitizer", "nvcc", stage.settings.python):
        stage.say(f"  {tool}: {shutil.which(tool) or 'not in PATH'}")
    if stage.on_gpu and shutil.which("nvidia-smi"):
        stage.say(stage.run("nvidia-smi", ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv"], 15).text.strip())
    libraries(stage)
    own_ceilings(stage)
    if stage.on_gpu:
        ceilings_of_pytorch(stage)


def memory_gib():
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def libraries(stage):
    """Reports the versions and files of CUDA's libraries that Weft loads, and libraries that are missing."""
    stage.say(f"  WEFT_CUDA_LIBRARIES={stage.settings.environment.get('WEFT_CUDA_LIBRARIES', '')}")
    weft = stage.program("weft")
    ended = stage.run("gpus", [weft, "gpus"], 20)
    stage.say("\n".join(f"  {line}" for line in ended.text.splitlines()))
    needed = stage.run("ldd", ["ldd", weft, weft.parent.parent / "lib" / "libweft.so"], 10).text
    for line in needed.splitlines():
        if "not found" in line and "libweft.so:" not in line:
            stage.fail(f"a library is missing: {line.strip()}")


def own_ceilings(stage):
    """Records the copy rate and the matrix rate that op_rates measures with Weft's own calls."""
    program = stage.program("op_rates")
    if not program.exists():
        stage.leave_out("copy rate and matrix rate of Weft", f"there is no {program}")
        return
    command = [program, "--model", "tiny", "--device", stage.device, "--bf16", "--seconds", "1", "--json"]
    ended = stage.run("op-rates", command, 25)
    rows = [row for row in json_lines(ended.text) if "copy_gb_s" in row]
    if ended.status != 0 or not rows:
        stage.fail(f"copy rate and matrix rate of Weft: op_rates {ended.cause}")
        return
    stage.figure("copy", rows[0]["copy_gb_s"] / 1e3, "TB/s", arm="Weft")
    stage.figure("matmul", rows[0]["matmul_gflops"] / 1e3, "TFLOP/s", arm="Weft")
    stage.say(f"  Weft: copies {rows[0]['copy_gb_s']:.0f} GB/s, matrix products {rows[0]['matmul_gflops']:.0f} GFLOP/s")


def ceilings_of_pytorch(stage):
    if not stage.has_pytorch():
        stage.leave_out("copy rate and matrix rate of PyTorch", f"{stage.settings.python} has no PyTorch")
        return
    program = pathlib.Path(__file__).with_name("ceilings.py")
    ended = stage.run("ceilings", [stage.settings.python, program], 30)
    rows = json_lines(ended.text)
    if ended.status != 0 or not rows:
        stage.fail(f"copy rate and matrix rate of PyTorch: it {ended.cause}")
        return
    found = rows[-1]
    for name, rate in found.pop("rates").items():
        unit, scale = {"copy to host": ("GB/s", 1e9), "copy": ("TB/s", 1e12)}.get(name, ("TFLOP/s", 1e12))
        stage.figure(name, rate / scale, unit, arm="PyTorch")
        stage.say(f"  PyTorch: {name} {rate / scale:.1f} {unit}")
    stage.say("  " + ", ".join(f"{key} {value}" for key, value in found.items()))
