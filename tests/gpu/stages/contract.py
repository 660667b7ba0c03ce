"""Stages `device` and `kernels`: the contract tests on this device."""
from stages import gtest

# Runners of the kernel contract: the second part of a test's name is a runner, or a runner and an op.
RUNNERS = ("cuda", "cuda_recorded", "cuda_on_host", "cublaslt_on_host", "cpu", "cpu_recorded")
ON_GPU = {"cuda", "cuda_recorded"}
# cuDNN builds a plan for each attention and convolution, up to a second each: these tests begin first.
SLOW = ("ttention", "onvolution")
# Tests that fill much of the GPU's memory run alone. They name no runner: they need a GPU.
LARGE = "LargeLogits."


def runner_of(test):
    """Returns the runner of a test: "cuda_recorded" of "EveryTypeAndMode/cuda_recorded__linear"."""
    parameter = test.rpartition("/")[2]
    fitting = [runner for runner in RUNNERS if parameter == runner or parameter.startswith(runner + "_")]
    return max(fitting, key=len, default="")


def tests_by(stage, program, runners):
    """Returns the tests of a program for these runners, the slow ones first."""
    tests = [test for test in gtest.list_tests(stage, program, "*") if runner_of(test) in runners]
    return sorted(tests, key=lambda test: not any(word in test for word in SLOW))


def need_passed(stage, program, results):
    """Fails if every test was skipped: then nothing is known about the device."""
    if results and all(result.outcome == "skipped" for result in results.values()):
        stage.fail(f"{program}: every test was skipped: {next(iter(results.values())).reason}")


def device(stage):
    """Runs the device contract, then what the driver and a trainer compute on this device."""
    for program in ("tests_contract_device", "tests_driver_device"):
        tests = [test for test in gtest.list_tests(stage, program, "*") if runner_of(test) == stage.device]
        need_passed(stage, program, gtest.run_tests(stage, program, tests, seconds=22, slices=1))
    if stage.on_gpu:
        tests = gtest.list_tests(stage, "tests_ops", "*OnAGpu*")
        need_passed(stage, "tests_ops", gtest.run_tests(stage, "tests_ops", tests, seconds=15, slices=1))


def kernels(stage):
    program = "tests_contract_kernels"
    tests = tests_by(stage, program, ON_GPU if stage.on_gpu else {"cpu", "cuda_on_host"})
    need_passed(stage, program, gtest.run_tests(stage, program, tests, seconds=60, slices=8))

    program = "tests_contract_sizes"
    if not stage.program(program).exists():
        stage.leave_out("sizes of real models", f"there is no {stage.program(program)}")
        return
    tests = tests_by(stage, program, ON_GPU if stage.on_gpu else set(RUNNERS) - ON_GPU)
    results = gtest.run_tests(stage, program, tests, seconds=50)
    if stage.on_gpu:
        large = gtest.list_tests(stage, program, f"{LARGE}*")
        if not large:
            stage.fail(f"{program} has no tests {LARGE}*")
        results |= gtest.run_tests(stage, program, large, seconds=40, slices=len(large), workers=1, arm=f"{program}, large")
    need_passed(stage, program, results)
