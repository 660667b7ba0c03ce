"""Runs the tests of a GoogleTest program in several processes, so that a crash costs one test."""
import collections
import dataclasses
import re

# Errors after which CUDA refuses all further calls of a process (core/cuda/internal/cuda_call.cc).
LOST_GPU = re.compile(r"lost its GPU|cannot use its GPU any more")
ENDS = re.compile(r"^\[ {2,7}(OK|FAILED|SKIPPED) {1,2}\] (\S+?)(?:,.*)? \(\d+ ms\)$")
BEGINS = re.compile(r"^\[ RUN {6}\] (\S+)$")
REASON = re.compile(r"Failure|[Ee]rror|should be|what\(\)|exception|[Dd]uplicate GPU")


@dataclasses.dataclass
class Result:
    """Outcome of one test: passed, failed, skipped, crashed, hung, lost GPU or not run."""

    outcome: str = "not run"
    reason: str = ""


def list_tests(stage, program, test_filter):
    """Returns the full names of the tests that the filter selects. Reports a failure if there is no list."""
    command = [stage.program(program), "--gtest_list_tests", f"--gtest_filter={test_filter}"]
    ended = stage.run(f"list-{program}", command, 20)
    if ended.status != 0:
        stage.fail(f"{program} lists no tests: it {ended.cause}")
        return []
    names, suite = [], ""
    for line in ended.text.splitlines():
        words = line.split("#")[0].split()
        if len(words) != 1:
            continue  # "Running main() from ..."
        if line.startswith("  "):
            names.append(suite + words[0])
        elif words[0].endswith("."):
            suite = words[0]
    return [name for name in names if "DISABLED_" not in name]


def parse(text, tests, ended_badly):
    """Returns the results of `tests` from the output of their process, which names them in order."""
    results = {test: Result() for test in tests}
    running, lines, gpu_lost = None, [], False
    for line in text.splitlines():
        if (begins := BEGINS.match(line)) and begins.group(1) in results:
            running, lines = begins.group(1), []
        elif ends := ENDS.match(line):
            kind, test = ends.group(1), ends.group(2)
            told = "\n".join(lines)
            outcome = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[kind]
            if outcome != "passed" and LOST_GPU.search(told):
                # The first such test lost the GPU; the others could not run.
                outcome = "lost GPU" if gpu_lost or outcome == "skipped" else outcome
                gpu_lost = True
            if test in results:
                results[test] = Result(outcome, reason_of(lines, outcome))
            running = None
        else:
            lines.append(line)
    if running in results and ended_badly:
        results[running] = Result(*ended_badly)
        results[running].reason += "".join(f": {line[:300]}" for line in lines[-1:])
    return results


def reason_of(lines, outcome):
    """Returns up to three lines of a test's output that tell the cause."""
    if outcome == "passed":
        return ""
    told = [line.strip() for line in lines if line.strip()]
    if outcome == "skipped":
        return next((line for line in told if line.startswith("skipped: ")), "; ".join(told[-1:]))[:300]
    return "; ".join([line for line in told if REASON.search(line)][:3] or told[-1:])[:400]


def run_slice(stage, program, tests, name, seconds, variables):
    """Runs some tests in one process."""
    command = [stage.program(program), "--gtest_filter=" + ":".join(tests)]
    ended = stage.run(name, command, seconds, variables)
    if ended.status is None:
        badly = ("hung", f"did not end within {ended.seconds:.0f} s")
    elif ended.status not in (0, 1):
        badly = ("crashed", ended.cause.split(":")[0])
    else:
        badly = None
    results = parse(ended.text, tests, badly)
    begun = any(result.outcome != "not run" for result in results.values())
    if not begun and badly and ended.seconds > 0:
        # The process ended before its first test.
        results[tests[0]] = Result(badly[0], ended.cause)
    if ended.status != 0 and all(result.outcome in ("passed", "skipped") for result in results.values()):
        stage.fail(f"{program} {ended.cause}, although no test failed")
    return results


def run_tests(stage, program, tests, seconds=60, slices=4, workers=4, variables=None, arm=None):
    """Runs tests in `slices` processes, `workers` at a time, and reports their results as figures of `arm`.

    Tests that did not run because a test before them crashed, hung or lost the GPU run once more, each in a
    process of its own. Returns the results by name.
    """
    if not tests:
        return {}
    dealt = [tests[i::slices] for i in range(min(slices, len(tests)))]
    arm = arm or program
    log = arm.replace(", ", "-")
    calls = [lambda i=i, part=part: run_slice(stage, program, part, f"{log}-{i}", seconds, variables)
             for i, part in enumerate(dealt)]
    results = {}
    for part in stage.at_once(calls, workers):
        results |= part
    again = [test for test in tests if results[test].outcome in ("not run", "lost GPU")]
    if again:
        stage.say(f"{arm}: {len(again)} tests run once more, each in a process of its own")
        calls = [lambda i=i, test=test: run_slice(stage, program, [test], f"{log}-alone-{i}", 30, variables)
                 for i, test in enumerate(again)]
        for part in stage.at_once(calls, workers):
            results |= part
    report(stage, arm, results)
    return results


def report(stage, arm, results):
    """Prints and records how many tests passed, and each that did not."""
    counts = collections.Counter(result.outcome for result in results.values())
    stage.say(f"{arm}: " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
    for outcome in ("passed", "skipped"):
        stage.figure(f"tests {outcome}", counts[outcome], "tests", arm=arm)
    stage.figure("tests failed", len(results) - counts["passed"] - counts["skipped"], "tests", arm=arm)
    for test, result in results.items():
        if result.outcome not in ("passed", "skipped"):
            stage.fail(f"{test}: {result.outcome}" + (f": {result.reason}" if result.reason else ""))
    skipped = collections.Counter(result.reason for result in results.values() if result.outcome == "skipped")
    for reason, count in skipped.most_common():
        stage.leave_out(f"{count} tests of {arm}", reason)
