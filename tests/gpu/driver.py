"""Runs the stages one after the other, each in a process with a time limit, and collects what they report."""
import dataclasses
import datetime
import importlib
import json
import os
import pathlib
import select
import signal
import sys
import time
import traceback

import processes
from stages import STAGES
from stages.stage import LeftOut, Stage

PASSED, FAILED, LEFT_OUT = 0, 1, 77  # exit statuses of a stage's process
RESERVE = 3  # seconds kept for the summary and the archive
SHORTEST = 10  # seconds below which no stage begins
NO_GPU = "no GPU can be used"


class Interrupted(Exception):
    pass


@dataclasses.dataclass
class Report:
    """What is known about one stage."""

    name: str
    outcome: str = ""
    seconds: float = 0
    failures: list = dataclasses.field(default_factory=list)
    left_out: list = dataclasses.field(default_factory=list)
    notes: list = dataclasses.field(default_factory=list)
    reason: str = ""  # of a stage that was left out

    @property
    def failed(self):
        return self.outcome.startswith("FAILED")

    def lines(self):
        """Returns the report as lines of the summary."""
        details = [f"failed: {cause}" for cause in self.failures] + [f"left out: {part}" for part in self.left_out]
        details += [f"note: {note}" for note in dict.fromkeys(self.notes)]
        return [f"{self.name:<10} {self.seconds:6.0f} s  {self.outcome}", *(f"    {line[:600]}" for line in details)]


class Driver:
    """One run of the script. `about` holds card, driver, commit and date, which every figure carries."""

    def __init__(self, settings, outputs, about, command, end):
        self.settings = settings
        self.outputs = outputs
        self.about = about
        self.command = command
        self.end = end  # on time.monotonic()
        self.reports = []
        self.gpu_missing = ""  # reason
        self.interrupted = 0  # number of the signal

    # --- all stages ---
    def run(self, selected):
        """Runs the selected stages. Returns the exit status of the script."""
        processes.adopt_orphans()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._interrupt)
        if self.settings.on_gpu:
            self.gpu_missing = self.check_gpu(patience=30, only_if_certain=True)
        for entry in STAGES:
            if entry.name in selected:
                self._run_or_leave_out(entry)
                self.outputs.summary(self.summary())
        self.outputs.pack_logs(self.settings.logs, datetime.datetime.now().strftime("%Y%m%dT%H%M%S"))
        self.outputs.say("\n" + self.summary())
        if self.interrupted:
            return 128 + self.interrupted
        failed = self.gpu_missing or self.outputs.failures or any(report.failed for report in self.reports)
        return 1 if failed else 0

    def _interrupt(self, number, _frame):
        self.interrupted = number

    def _run_or_leave_out(self, entry):
        report = Report(entry.name)
        self.reports.append(report)
        limit = min(entry.seconds, self.end - RESERVE - time.monotonic())
        if self.interrupted:
            report.reason = f"interrupted by {processes.signal_name(self.interrupted)}"
        elif self.gpu_missing and entry.name != "machine":
            report.reason = NO_GPU
        elif limit < SHORTEST:
            report.reason = "the time is up"
        if report.reason:
            report.outcome = f"left out: {report.reason}"
        else:
            self.outputs.say(f"\n===== {entry.name}: {entry.content} (at most {limit:.0f} s) =====")
            self._run_stage(entry, limit, report)
            if report.failed and self.settings.on_gpu and not self.gpu_missing:
                # A GPU on which not even the first stage ends is none.
                self.gpu_missing = self.check_gpu(patience=20, only_if_certain=entry.name != "machine")
        if entry.name == "machine" and self.gpu_missing:
            report.outcome = f"FAILED: {NO_GPU}: {self.gpu_missing}"
        self.outputs.say(report.lines()[0])
        self.outputs.figure({"stage": entry.name, "figure": "seconds", "model": "", "arm": "",
                             "value": round(report.seconds, 1), "unit": "s", "outcome": report.outcome,
                             "command": self.command} | self.about)

    def check_gpu(self, patience, only_if_certain=False):
        """Returns the reason why no GPU can be used, or "" if one can. A check that hangs is no certain answer."""
        log = self.settings.logs / "gpus.log"
        command = [self.settings.binaries / "weft", "gpus"]

        def end_if_interrupted(_):
            if self.interrupted:
                raise Interrupted

        try:
            ended = processes.run(command, patience, log, self.settings.environment, end_if_interrupted)
        except Interrupted:
            return ""
        if ended.status == 0 or (only_if_certain and ended.status != 1):
            return ""
        return " ".join(ended.text.split())[:600] if ended.status == 1 else f"`weft gpus` {ended.cause}"

    def summary(self):
        about = f"{self.about['date']}  commit {self.about['commit']}  card {self.about['card']}"
        if self.about["driver"]:
            about += f"  driver {self.about['driver']}"
        lines = [about, self.command]
        for report in self.reports:
            lines += report.lines()
        lines += steps_of(self.settings.figures)
        if self.gpu_missing:
            lines.append(f"{NO_GPU}: {self.gpu_missing}")
        lines += self.outputs.failures
        failed = [report.name for report in self.reports if report.failed]
        lines.append(f"FAILED: {', '.join(failed)}" if failed else "nothing failed")
        return "\n".join(lines) + "\n\n"

    # --- one stage ---
    def _run_stage(self, entry, limit, report):
        begin = time.monotonic()
        output, output_end = os.pipe()
        messages, messages_end = os.pipe()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os.close(output)
            os.close(messages)
            run_in_child(entry, self.settings, limit, output_end, messages_end)
        os.close(output_end)
        os.close(messages_end)
        timed_out = not self._read_until_end(child, begin + limit, output, messages, report)
        remaining = processes.end_all(lambda: reap(child) or processes.descendants(os.getpid()))
        status = wait_for(child)
        # The pipes end when no process holds them. A process that cannot be killed may hold them for ever.
        self._read(output, messages, report, time.monotonic() + 1)
        os.close(output)
        os.close(messages)
        report.seconds = time.monotonic() - begin
        for pid in remaining:
            report.failures.append(f"process {pid} ({' '.join(processes.command_of(pid))[:100]}) survives SIGKILL")
        if self.interrupted:
            report.reason = f"interrupted by {processes.signal_name(self.interrupted)}"
            report.outcome = f"FAILED: {report.reason}"
        elif timed_out:
            report.outcome = f"FAILED: not done after {limit:.0f} s"
        elif status == LEFT_OUT:
            report.outcome = f"left out: {report.reason}"
        elif status not in (PASSED, FAILED):
            how = processes.signal_name(-status) if status and status < 0 else f"status {status}"
            report.outcome = f"FAILED: the stage's process ended with {how}"
        elif status == FAILED or report.failures:
            report.outcome = f"FAILED: {len(report.failures) or 'unknown'} {'cause' if len(report.failures) == 1 else 'causes'}"
        else:
            report.outcome = "passed"

    def _read_until_end(self, child, deadline, output, messages, report):
        """Reads what the stage prints and reports. Returns false if it did not end before `deadline`."""
        self._partial = {output: b"", messages: b""}
        while not self.interrupted:
            now = time.monotonic()
            if now >= deadline:
                return False
            self._read(output, messages, report, min(deadline, now + 0.1))
            if has_ended(child):
                return True
        return True

    def _read(self, output, messages, report, deadline):
        """Reads both pipes until `deadline`, or until both have ended."""
        if not self._partial:
            time.sleep(max(0, min(0.05, deadline - time.monotonic())))
        while self._partial and (left := deadline - time.monotonic()) > 0:
            for pipe in select.select(list(self._partial), [], [], left)[0]:
                data = os.read(pipe, 1 << 16)
                *lines, rest = (self._partial[pipe] + data).split(b"\n")
                if data:
                    self._partial[pipe] = rest
                else:
                    lines += [rest] if rest else []
                    del self._partial[pipe]
                for line in lines:
                    text = line.decode(errors="replace")
                    if pipe == output:
                        self.outputs.say(text)
                    else:
                        self._take(text, report)

    def _take(self, text, report):
        try:
            message = json.loads(text)
        except ValueError:
            return  # the stage was ended while it wrote this line
        for kind, value in message.items():
            if kind == "figure":
                self.settings.figures.append(value)
                self.outputs.figure(value | self.about)
            elif kind == "failure":
                report.failures.append(value)
            elif kind == "reason":
                report.reason = value
            elif kind == "left_out":
                report.left_out.append(value)
            else:
                report.notes.append(value)


def run_in_child(entry, settings, seconds, output, messages):
    """Runs a stage in the process that fork() has made. Never returns."""
    status = FAILED
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        for stream in (1, 2):
            os.dup2(output, stream)
        sys.stdout = open(1, "w", encoding="utf-8", errors="replace", closefd=False)
        stage = Stage(entry.name, settings, seconds, messages)
        try:
            getattr(importlib.import_module(f"stages.{entry.module}"), entry.name)(stage)
            status = FAILED if stage.failures else PASSED
        except LeftOut as reason:
            stage.say(f"left out: {reason}")
            stage.tell({"reason": str(reason)})
            status = FAILED if stage.failures else LEFT_OUT
        except Exception as error:  # Whatever is wrong in one stage, the next one runs.
            traceback.print_exc()
            stage.fail(f"{type(error).__name__}: {error}")
        sys.stdout.flush()
    finally:
        os._exit(status)


def has_ended(child):
    """Returns true if a child has ended. Its status stays for wait_for()."""
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def reap(child):
    """Takes the statuses of orphans that this process has adopted, but not that of `child`."""
    while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if ended.si_pid == child:
            break  # orphans behind it wait for the next call
        os.waitpid(ended.si_pid, 0)
    return []


def wait_for(child):
    """Returns the exit status of a child that has been ended, minus a signal's number, or None if it lives on."""
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    return None


def steps_of(figures):
    """Returns the times of all steps by model, as lines of the summary."""
    lines = []
    steps = [row for row in figures if row["figure"] == "step"]
    for model in dict.fromkeys(row["model"] for row in steps):
        of_weft = [row["value"] for row in steps if row["model"] == model and row["stage"] == "step"]
        for row in (row for row in steps if row["model"] == model):
            line = f"  {model:8} {'PyTorch ' if row['stage'] == 'peers' else 'Weft '}{row['arm'] + ' (again)' * (row['stage'] == 'again'):40}"
            line += f" {row['value']:9.2f} ms"
            if row["stage"] == "peers" and of_weft:
                line += f"  Weft {row['value'] / min(of_weft):.2f}x as fast"
            lines.append(line)
    return lines
