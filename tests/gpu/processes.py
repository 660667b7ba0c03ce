"""Processes with a time limit. At its limit, a process ends with everything that it started."""
import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import time
import typing

GRACE = 2.0  # seconds between SIGTERM and SIGKILL
LEAST = 2.0  # seconds below which nothing is started


class Ended(typing.NamedTuple):
    """How a program ended."""

    status: int | None  # exit status, minus the signal's number, or None after the time limit
    seconds: float
    log: pathlib.Path  # output and errors of the program

    @property
    def text(self):
        return self.log.read_text(errors="replace")

    @property
    def cause(self):
        """Returns the reason for the failure, with the last line that the program printed."""
        if self.status is None:
            how = f"did not end within {self.seconds:.0f} s"
        elif self.status < 0:
            how = f"was ended by {signal_name(-self.status)}"
        else:
            how = f"ended with status {self.status}"
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return f"{how}: {lines[-1][:300]}" if lines else how


def signal_name(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def adopt_orphans():
    """Makes this process the parent of descendants whose parent ends, so that end_all() finds them."""
    pr_set_child_subreaper = 36
    ctypes.CDLL(None, use_errno=True).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def living_processes():
    """Returns (pid, parent, session) of each living process."""
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            stat = pathlib.Path(entry.path, "stat").read_text(errors="replace")
        except OSError:
            continue  # it has ended meanwhile
        state, parent, _, session = stat.rsplit(")", 1)[1].split()[:4]
        if state not in "ZX":
            found.append((int(entry.name), int(parent), int(session)))
    return found


def descendants(pid):
    """Returns the living processes below `pid`, parents first, then those of its session, also if their parents have ended."""
    children, of_session = {}, []
    for process, parent, session in living_processes():
        children.setdefault(parent, []).append(process)
        if session == pid and process != pid:
            of_session.append(process)
    found, unseen = [], [pid]
    while unseen:
        below = children.get(unseen.pop(), [])
        found += below
        unseen += below
    return list(dict.fromkeys(found + of_session))


def command_of(pid):
    """Returns the command line of a process as a list of words; empty if it has ended."""
    try:
        content = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return content.decode(errors="replace").rstrip("\0").split("\0")


def send(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end_all(living, patience=GRACE):
    """Ends the processes that `living()` returns: by SIGTERM, later by SIGKILL. Returns those that remain.

    A process remains if a driver's call holds it in the kernel. Nobody waits for it.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + patience
        signalled = set()
        while pids := living():
            send([pid for pid in pids if pid not in signalled], number)
            signalled.update(pids)
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
    return living()


def end(process):
    """Ends a process and its descendants."""
    below = set()

    def living():
        below.update(descendants(process.pid))
        running = [process.pid] if process.poll() is None else []
        return running + [pid for pid in below if is_alive(pid)]

    end_all(living)


def is_alive(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


@contextlib.contextmanager
def started(command, log, environment):
    """Starts a program for the time of a `with` block; ends it with the block."""
    with open(log, "wb") as output:
        process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, env=environment, start_new_session=True)
    try:
        yield process
    finally:
        end(process)


def run(command, seconds, log, environment, watch=None):
    """Runs a program for at most `seconds`. `watch(pid)` is called fifty times a second meanwhile."""
    begin = time.monotonic()
    try:
        with started(command, log, environment) as process:
            while (left := begin + seconds - time.monotonic()) > 0 and process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(min(left, 0.02) if watch else left)
                if watch:
                    watch(process.pid)
            status = process.poll()
    except OSError as error:
        pathlib.Path(log).write_text(f"{command[0]} cannot be started: {error}\n")
        status = 127
    return Ended(status, time.monotonic() - begin, pathlib.Path(log))
