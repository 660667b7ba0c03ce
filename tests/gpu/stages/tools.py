"""Stages `sanitizer` and `profile`: Weft's kernels under NVIDIA's tools."""
import csv
import glob
import pathlib
import re
import shutil

from stages import contract, gtest
from stages.stage import LeftOut

TOOL_PLACES = {
    "compute-sanitizer": ["/usr/local/cuda*/bin/compute-sanitizer", "/usr/local/cuda*/compute-sanitizer/compute-sanitizer",
                          "/opt/nvidia/*/compute-sanitizer", "/opt/nvidia/*/compute-sanitizer/compute-sanitizer"],
    "ncu": ["/opt/nvidia/nsight-compute/*/ncu", "/usr/local/cuda*/bin/ncu", "/usr/local/cuda*/nsight-compute*/ncu"],
}
IN_PYTHON = ["nvidia/cu13/bin/{}", "nvidia/cu13/compute-sanitizer/{}", "nvidia/*/bin/{}"]
# Ops that Weft's own kernels compute, and tests over several of them. Kernels of NVIDIA's libraries are not watched.
OWN = re.compile(r"norm|cross_entropy|embedding|gelu|softmax|relu|convert|scale|pool|dropout|(?<!r)_add|_sum|adamw"
                 r"|SumsOfSquares|Optimizer|Conversions|InPlace|NotBeAligned")
LIBRARIES = re.compile(r"linear|attention|convolution")
ERRORS = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")
DENIED = "ERR_NVGPUCTRPERM"  # ncu's error if counters are for the administrator only


def find_tool(stage, name):
    """Returns the path of a tool of NVIDIA's. Throws LeftOut if it is not found."""
    places = [shutil.which(name) or ""]
    for pattern in TOOL_PLACES[name]:
        places += sorted(glob.glob(pattern), reverse=True)  # the newest version first
    listing = "import site, sysconfig; print(*{sysconfig.get_path('purelib'), *site.getsitepackages()}, sep='\\n')"
    for folder in stage.run("packages", [stage.settings.python, "-c", listing], 10).text.split():
        for pattern in IN_PYTHON:
            places += sorted(glob.glob(str(pathlib.Path(folder, pattern.format(name)))))
    for place in places:
        if place and pathlib.Path(place).is_file():
            return place
    raise LeftOut(f"{name} was not found")


def need_gpu(stage):
    if not stage.on_gpu:
        raise LeftOut("it needs a GPU")


def sanitizer(stage):
    need_gpu(stage)
    tool = find_tool(stage, "compute-sanitizer")
    program = "tests_contract_kernels"
    tests = [test for test in contract.tests_by(stage, program, {"cuda"})
             if OWN.search(test) and not LIBRARIES.search(test)]
    if not tests:
        stage.fail(f"{program} has no tests of Weft's own kernels on a GPU")
        return
    stage.at_once([lambda kind=kind: check(stage, tool, kind, program, tests) for kind in ("memcheck", "racecheck")])


def check(stage, tool, kind, program, tests):
    """Runs tests under one of compute-sanitizer's tools."""
    command = [tool, "--tool", kind, "--kernel-name", "kns=weft", "--report-api-errors", "no", "--error-exitcode", "86",
               "--print-limit", "20", stage.program(program), "--gtest_filter=" + ":".join(tests)]
    ended = stage.run(kind, command, stage.left())
    results = gtest.parse(ended.text, tests, None)
    passed = sum(result.outcome == "passed" for result in results.values())
    summaries = [int(count) for count in ERRORS.findall(ended.text)]
    stage.say(f"{kind}: {sum(summaries)} errors, {passed} of {len(tests)} tests passed, {ended.seconds:.0f} s")
    stage.figure("errors", sum(summaries), "errors", arm=kind, tests=passed)
    found = [line for line in ended.text.splitlines() if re.match(r"========= [A-Z]", line) and "SUMMARY" not in line]
    if sum(summaries) or ended.status == 86:
        stage.fail(f"{kind}: {sum(summaries)} errors: " + "; ".join(found[1:6])[:600])
    elif ended.status is None:
        stage.leave_out(f"{kind} of {len(tests) - passed} tests", f"no errors within the time limit, {passed} tests passed")
    elif ended.status != 0:
        stage.fail(f"{kind} {ended.cause}")


# One pass over a kernel collects these: ncu need not run it twice and restore its memory.
NO_GRAPHS = {"WEFT_CUDA_GRAPHS": "0"}
METRICS = ["gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"]
# 124M launches 400 to 500 kernels a step. The five warm-up steps come first; the window lies in the third or fourth.
SKIPPED, COUNTED = 1300, 420


def profile(stage):
    need_gpu(stage)
    tool = find_tool(stage, "ncu")
    training = [stage.program("training_step"), "--model", "124m", "--device", "cuda", "--bf16", "--steps", "1"]
    # Measures cuBLASLt's products, if no stage before has, and keeps the choices for the run below.
    measured = stage.run("measure", training, 25, NO_GRAPHS)
    if measured.status != 0:
        stage.fail(f"training_step {measured.cause}")
        return
    # The clocks stay as they are, so that the rates are comparable with the other stages'.
    command = [tool, "--clock-control", "none", "--cache-control", "none", "--csv", "--page", "raw", "--print-units", "base",
               "--launch-skip", SKIPPED, "--launch-count", COUNTED, "--metrics", ",".join(METRICS),
               *training]
    ended = stage.run("ncu", command, stage.left(), NO_GRAPHS)
    if DENIED in ended.text:
        raise LeftOut(f"the driver lets only its administrator read counters ({DENIED})")
    kernels = kernels_of(ended.text)
    if not kernels:
        stage.fail(f"ncu printed no kernel; it {ended.cause}")
        return
    copy = max((row["value"] for row in stage.settings.figures
                if row["stage"] == "machine" and row["figure"] == "copy"), default=None)
    total = sum(kernel["ns"] for kernel in kernels.values())
    stage.say(f"{sum(kernel['runs'] for kernel in kernels.values())} kernels, {total / 1e6:.2f} ms")
    for name, kernel in sorted(kernels.items(), key=lambda entry: -entry[1]["ns"])[:40]:
        rate = kernel["bytes"] / kernel["ns"] / 1e3
        share = {"of_copy_rate": rate / copy} if copy else {}
        stage.figure("kernel", kernel["ns"] / 1e6, "ms", "124m", name, tb_s=rate, runs=kernel["runs"],
                     mib=kernel["bytes"] / kernel["runs"] / 2**20, **share)
        stage.say(f"  {kernel['ns'] / 1e6:8.3f} ms {100 * kernel['ns'] / total:5.1f} % {rate:6.2f} TB/s "
                  f"{kernel['runs']:4} runs  {name}")


def kernels_of(text):
    """Returns time, bytes and number of runs of each kernel in ncu's table."""
    kernels = {}
    for row in csv.DictReader(line for line in text.splitlines() if line.startswith('"')):
        try:
            ns, read, written = (float(row[metric].replace(",", "")) for metric in METRICS)
        except (KeyError, ValueError, AttributeError):
            continue  # the line of units, or a program's own line
        name = re.split(r"[<(]", row["Kernel Name"].removeprefix("void "))[0][-70:]
        kernel = kernels.setdefault(name, {"ns": 0.0, "bytes": 0.0, "runs": 0})
        kernel["ns"] += ns
        kernel["bytes"] += read + written
        kernel["runs"] += 1
    return kernels
