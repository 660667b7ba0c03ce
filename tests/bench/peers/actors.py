"""Actors of Weft, Ray and Monarch, as tests/bench/peers/actors times them.

actors.py ray --temporary DIR [sizes]       Ray's side; prints a line of JSON per scenario, as build/bin/actors does
actors.py monarch [sizes]                   Monarch's side
actors.py compare --weft FILE [options]     installs the peers, runs all in turns and prints the table
actors.py report FILE                       the table of figures that compare has stored with --json

"In turns": each round runs Weft, Ray and Monarch one after the other. A peer that cannot be installed is left out, and the table says so.
"""
import argparse
import ctypes
import json
import os
import pwd
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

PAYLOAD = bytes(64)
BATCH = 1000
PAIRS = 4
RESTARTS = 3
# Memory for an actor of Ray or Monarch. One of Ray has 42 MiB of its own, the first 80 MiB.
MIB_PER_PEER_ACTOR = 100
MIB_LEFT_FREE = 2048
PR_SET_CHILD_SUBREAPER = 36


class Row:
    """A row of the table: a figure of each side, and what is wanted of Weft's."""

    def __init__(self, title, scenario, figure, raw=None, peers=None, times_peer=None, most=None, times_raw=None):
        self.title, self.scenario, self.figure, self.raw = title, scenario, figure, raw
        self.peers = peers or scenario  # the peers' scenario, where they have none of that name
        self.times_peer = times_peer  # aim: at least so many times as fast as Ray
        self.most = most  # aim: at most this
        self.times_raw = times_raw  # aim: at most so many times raw sockets

    def higher_is_better(self):
        return self.figure.endswith("_per_second")

    def aim(self):
        if self.times_peer:
            return f"{self.times_peer}x Ray"
        if self.times_raw:
            return f"{self.times_raw}x raw"
        return f"at most {self.most}" if self.most else ""


ROWS = [
    Row("call, 64 B, one caller: us", "call", "median_us", raw="raw_call", times_peer=30),
    Row("pipelined, one caller to one actor: calls/s", "pipelined", "calls_per_second", raw="raw_pipelined", times_peer=150),
    Row("4 callers to 4 actors: calls/s", "pairs", "calls_per_second", times_peer=50),
    Row("start in shared processes: actors/s", "start_shared", "actors_per_second", peers="start", times_peer=100),
    Row("start in own processes: actors/s", "start", "actors_per_second", times_peer=20),
    Row("call to {peer_actors} actors, 64 B, and gather: us", "gather_few", "median_us", raw="raw_tree_few"),
    Row("call to {actors} actors, 64 B, and gather: us", "gather", "median_us", raw="raw_tree", times_raw=2),
    Row("1 MiB to {actors} processes and back: us", "send", "median_us", raw="raw_send", most=1500000),
    Row("reduce of 1 MiB over 64 actors: us", "reduce", "median_us", raw="raw_reduce", times_raw=2),
    Row("SIGKILL to the first answer of the next: ms", "restart", "median_ms", most=150),
]
SIDES = ("Weft", "Ray", "Monarch")


def say(scenario, **figures):
    print(json.dumps({"scenario": scenario, **figures}), flush=True)


def timed(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def latency(calls, call):
    """The median and the 99th percentile in microseconds, after a tenth as many calls that do not count."""
    for _ in range(calls // 10):
        call()
    times = sorted(timed(call) * 1e6 for _ in range(calls))
    return {"median_us": times[len(times) // 2], "p99_us": times[len(times) * 99 // 100]}


def run_scenarios(scenarios):
    """Runs each; one that fails does not stop the next."""
    for name, run in scenarios.items():
        try:
            say(name, **run())
        except Exception as error:  # whatever a peer throws is a figure that is missing, with its reason
            say(name, error=f"{type(error).__name__}: {error}".split("\n")[0][:300])


def ray_side(arguments):
    import ray

    ray.init(include_dashboard=False, log_to_driver=False, logging_level="error", object_store_memory=80 << 20, _temp_dir=arguments.temporary,
             _plasma_directory=arguments.temporary)
    say("about", version=ray.__version__)

    @ray.remote(num_cpus=0)
    class Echo:
        def echo(self, payload):
            return payload

        def pid(self):
            return os.getpid()

    @ray.remote(num_cpus=0)
    class Caller:
        def __init__(self, echo):
            self.echo = echo

        def call(self, batches):
            for _ in range(batches):
                ray.get([self.echo.echo.remote(PAYLOAD) for _ in range(BATCH)])

    echo = Echo.remote()
    many = []

    def batch():
        ray.get([echo.echo.remote(PAYLOAD) for _ in range(BATCH)])

    def pipelined():
        batch()
        return {"calls_per_second": arguments.batches * BATCH / timed(lambda: [batch() for _ in range(arguments.batches)])}

    def pairs():
        callers = [Caller.remote(Echo.remote()) for _ in range(PAIRS)]
        batches = max(1, arguments.batches // PAIRS)
        ray.get([caller.call.remote(batches) for caller in callers])
        seconds = timed(lambda: ray.get([caller.call.remote(batches) for caller in callers]))
        return {"calls_per_second": PAIRS * batches * BATCH / seconds}

    def start():
        def spawn():
            many.extend(Echo.remote() for _ in range(arguments.actors))
            ray.get([actor.echo.remote(PAYLOAD) for actor in many])
        return {"actors_per_second": arguments.actors / timed(spawn), "actors": arguments.actors}

    def gather():
        figures = latency(arguments.rounds, lambda: ray.get([actor.echo.remote(PAYLOAD) for actor in many]))
        return {**figures, "actors": len(many)}

    def restart():
        actor = Echo.options(max_restarts=RESTARTS, max_task_retries=-1).remote()
        pid, ms = ray.get(actor.pid.remote()), []

        def kill():
            nonlocal pid
            os.kill(pid, signal.SIGKILL)
            before = pid
            while pid == before:
                pid = ray.get(actor.pid.remote())
        for _ in range(RESTARTS):
            ms.append(timed(kill) * 1e3)
        return {"median_ms": statistics.median(ms), "most_ms": max(ms)}

    run_scenarios({"call": lambda: latency(arguments.calls, lambda: ray.get(echo.echo.remote(PAYLOAD))), "pipelined": pipelined,
                   "pairs": pairs, "restart": restart, "start": start, "gather_few": gather})
    ray.shutdown()


def monarch_side(arguments):
    from importlib.metadata import version

    from monarch.actor import Actor, current_rank, endpoint, this_host

    say("about", version=version("torchmonarch"))

    class Echo(Actor):
        @endpoint
        def echo(self, payload: bytes) -> bytes:
            return payload

    class Caller(Actor):
        def __init__(self, echoes):
            self.echo = echoes.slice(processes=current_rank().rank)

        @endpoint
        async def call(self, batches: int) -> None:
            for _ in range(batches):
                for reply in [self.echo.echo.call_one(PAYLOAD) for _ in range(BATCH)]:
                    await reply

    host = this_host()
    started = []

    def spawn(name, count, actor=Echo, *rest):
        processes = host.spawn_procs(per_host={"processes": count})
        mesh = processes.spawn(name, actor, *rest)
        started.append(processes)
        return mesh

    echo = spawn("echo", 1)
    echo.echo.call_one(PAYLOAD).get()
    many = []

    def batch():
        for reply in [echo.echo.call_one(PAYLOAD) for _ in range(BATCH)]:
            reply.get()

    def pipelined():
        batch()
        return {"calls_per_second": arguments.batches * BATCH / timed(lambda: [batch() for _ in range(arguments.batches)])}

    def pairs():
        callers = spawn("callers", PAIRS, Caller, spawn("echoes", PAIRS))
        batches = max(1, arguments.batches // PAIRS)
        callers.call.call(batches).get()
        return {"calls_per_second": PAIRS * batches * BATCH / timed(lambda: callers.call.call(batches).get())}

    def start():
        def spawn_many():
            many.append(spawn("many", arguments.actors))
            many[0].echo.call(PAYLOAD).get()
        return {"actors_per_second": arguments.actors / timed(spawn_many), "actors": arguments.actors}

    def gather():
        return {**latency(arguments.rounds, lambda: many[0].echo.call(PAYLOAD).get()), "actors": arguments.actors}

    def restart():
        return {"error": "Monarch reports a death and restarts nothing by itself"}

    run_scenarios({"call": lambda: latency(arguments.calls, lambda: echo.echo.call_one(PAYLOAD).get()), "pipelined": pipelined,
                   "pairs": pairs, "restart": restart, "start": start, "gather_few": gather})
    for processes in started:
        processes.stop().get()


def available_mib():
    """Memory that is free for new processes, by the machine and by this control group."""
    with open("/proc/meminfo") as file:
        free = [int(re.search(r"MemAvailable: +(\d+)", file.read()).group(1)) // 1024]
    for limit, used in (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")):
        try:
            with open(f"/sys/fs/cgroup/{limit}") as most, open(f"/sys/fs/cgroup/{used}") as now:
                free.append((int(most.read()) - int(now.read())) >> 20)
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return min(free)


def descendants(pid):
    children = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        children.setdefault(parent, []).append(int(entry))
    found, left = [], [pid]
    while left:
        found += children.get(left[-1], [])
        left += children.get(left.pop(), [])
    return found


def end_descendants():
    """Kills and reaps the processes that a side has left; as a subreaper this process is their parent."""
    give_up = time.monotonic() + 20
    while remaining := descendants(os.getpid()):
        if time.monotonic() > give_up:
            sys.exit(f"processes {remaining} do not end after SIGKILL")
        for pid in remaining:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        time.sleep(0.01)


def parse_lines(text):
    """The figures by scenario. Other output, and a line that was cut off, are skipped."""
    found = {}
    for line in text.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and "scenario" in entry:
            found[entry.pop("scenario")] = entry
    return found


def run_side(command, work, seconds):
    """Runs one side, for at most so long. Returns its figures by scenario; what is missing has its reason under "failed"."""
    if seconds < 5:
        return {"failed": {"error": "no time was left for it"}}
    os.makedirs(work, exist_ok=True)
    output, log = os.path.join(work, "output"), os.path.join(work, "log")
    with open(output, "w") as out, open(log, "w") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, stdin=subprocess.DEVNULL, start_new_session=True,
                                   env={**os.environ, "HOME": work, "RAY_USAGE_STATS_ENABLED": "0"})
        try:
            status = process.wait(timeout=seconds)
            ended = f"ended with status {status}"
        except subprocess.TimeoutExpired:
            status, ended = None, f"was cut off after {seconds:.0f} s"
        finally:
            end_descendants()
            process.poll()  # was reaped with the others
    with open(output) as file:
        found = parse_lines(file.read())
    if status != 0 and not any("error" in figures for figures in found.values()):
        with open(log, errors="replace") as file:
            last = [line.strip() for line in file if line.strip()][-1:]
        found["failed"] = {"error": ": ".join([ended] + last)[:300]}
    shutil.rmtree(work, ignore_errors=True)
    return found


def sizes(**values):
    return [part for name, value in values.items() for part in (f"--{name}", str(value))]


def weft_round(arguments, limit):
    """Weft and the raw sockets: all scenarios, then those over many actors with as many as the peers have."""
    work = os.path.join(arguments.work, "weft")
    command = [arguments.weft, "--out", os.path.join(work, "run")]
    found = run_side(command + sizes(actors=arguments.actors), work, limit())
    few = run_side(command + ["gather", "raw_gather", "raw_tree"] + sizes(actors=arguments.peer_actors), work, limit())
    found.update({name + "_few": figures for name, figures in few.items() if name != "failed"})
    if "failed" in few:
        found["gather_few"] = few["failed"]
    return found


def install(name):
    """The Python of a peer's virtual environment. Throws OSError with the reason if it cannot be made."""
    folder = os.path.dirname(os.path.abspath(__file__))
    try:
        made = subprocess.run([os.path.join(folder, "peer_venv"), name, "--install"], capture_output=True, text=True, timeout=300, check=True)
    except subprocess.TimeoutExpired as error:
        raise OSError("it could not be installed within 300 s") from error
    except subprocess.CalledProcessError as error:
        said = [line for line in error.stderr.splitlines() if line.strip()]
        raise OSError(f"it could not be installed: {': '.join(said[-2:])}") from error
    return os.path.join(made.stdout.strip(), "bin", "python")


def peer_round(name, python, arguments, limit):
    work = os.path.join(arguments.work, name)
    command = [python, os.path.abspath(__file__), name] + sizes(actors=arguments.peer_actors)
    if name == "ray":
        command += ["--temporary", os.path.join(work, "t")]
    found = run_side(command, work, limit())
    version = found.pop("about", {}).get("version", "")
    return version, found


def remove_if_new(path, there_before):
    """Monarch's log, which has a fixed place under the system's temporary folder."""
    if not there_before and os.path.exists(path):
        os.remove(path)
        try:
            os.rmdir(os.path.dirname(path))
        except OSError:
            pass


def compare(arguments):
    """Runs the rounds and prints the table. Ends with status 1 if a scenario of Weft failed."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("this process cannot become the parent of what Ray leaves behind (prctl)")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # Paths of Ray's sockets hold 107 characters, so that its files do not lie under a long TMPDIR.
    with tempfile.TemporaryDirectory(prefix="weft-actors.", dir="/tmp", ignore_cleanup_errors=True) as arguments.work:
        result = run_rounds(arguments)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(result, file)
    print(table(result))
    if any(weft_failed(entry["Weft"]) for entry in result["rounds"]):
        sys.exit(1)


def run_rounds(arguments):
    """The figures of each round, and the reason for each side or round that was left out."""
    most = max(4, (available_mib() - MIB_LEFT_FREE) // MIB_PER_PEER_ACTOR)
    if most < arguments.peer_actors:
        print(f"memory for {most} actors of a peer instead of {arguments.peer_actors}", file=sys.stderr)
        arguments.peer_actors = most
    end = time.monotonic() + arguments.minutes * 60

    def limit():
        return min(180, end - time.monotonic())

    log = os.path.join("/tmp", pwd.getpwuid(os.getuid()).pw_name, "monarch_log.log")
    log_before = os.path.exists(log)
    result = {"actors": arguments.actors, "peer_actors": arguments.peer_actors, "versions": {}, "rounds": [], "left_out": {}}
    pythons, longest = {}, 0
    try:
        for name in ("ray", "monarch"):
            try:
                pythons[name] = install(name)
            except OSError as error:
                result["left_out"][name.capitalize()] = str(error)
        for number in range(arguments.rounds):
            begin = time.monotonic()
            if end - begin < 1.1 * longest:
                result["left_out"][f"round {number + 1}"] = f"the {arguments.minutes} minutes are too short for it"
                break
            print(f"round {number + 1}: {', then '.join(['Weft', *map(str.capitalize, pythons)])}", file=sys.stderr)
            entry = {"Weft": weft_round(arguments, limit)}
            for name, python in pythons.items():
                version, entry[name.capitalize()] = peer_round(name, python, arguments, limit)
                result["versions"].setdefault(name.capitalize(), version)
            result["rounds"].append(entry)
            longest = max(longest, time.monotonic() - begin)
    finally:
        end_descendants()
        remove_if_new(log, log_before)
    return result


def weft_failed(figures):
    return any("error" in entry for name, entry in figures.items() if name != "start_shared")


def value_of(entry, side, scenario, figure):
    return entry.get(side, {}).get(scenario, {}).get(figure)


def medians(result, row):
    """The median of each column, and Weft's speed over Ray's and over the raw sockets', as medians of the rounds' own ratios."""
    columns = [("raw", "Weft", row.raw), ("Weft", "Weft", row.scenario), ("Ray", "Ray", row.peers), ("Monarch", "Monarch", row.peers)]
    of = {}
    for column, side, scenario in columns:
        values = [value for entry in result["rounds"] if (value := value_of(entry, side, scenario, row.figure)) is not None]
        of[column] = statistics.median(values) if values else None
    for column, side, scenario in (columns[0], *columns[2:]):
        ratios = []
        for entry in result["rounds"]:
            ours, theirs = value_of(entry, "Weft", row.scenario, row.figure), value_of(entry, side, scenario, row.figure)
            if ours and theirs:
                ratios.append(ours / theirs if row.higher_is_better() or column == "raw" else theirs / ours)
        of["over " + column] = statistics.median(ratios) if ratios else None
    return of


def number(value, ratio=False):
    if value is None:
        return "-"
    text = f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return text + "x" if ratio else text


def table(result):
    versions = result["versions"]
    heads = ["", "raw sockets", "Weft"] + [f"{name} {versions.get(name, '')}".strip() for name in SIDES[1:]]
    heads += ["Weft/raw", "times Ray", "times Monarch", "aim"]
    lines = [heads]
    for row in ROWS:
        of = medians(result, row)
        lines.append([row.title.format(**result)] + [number(of[column]) for column in ("raw", *SIDES)]
                     + [number(of[f"over {column}"], ratio=True) for column in ("raw", "Ray", "Monarch")] + [row.aim()])
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    text = ["  ".join(cell.ljust(width) if i == 0 else cell.rjust(width) for i, (cell, width) in enumerate(zip(line, widths))).rstrip()
            for line in lines]
    rounds = len(result["rounds"])
    text.append(f"medians of {rounds} round{'s' * (rounds != 1)}; ratios are medians of the rounds' own. times: how often as fast Weft is.")
    reasons = [f"{who}: {why}" for who, why in result["left_out"].items()]
    for entry in result["rounds"]:
        for side, figures in entry.items():
            reasons += [f"{side}, {name}: {figure['error']}" for name, figure in figures.items() if "error" in figure]
    if reasons:
        text += ["not measured:"] + [f"  {reason}" for reason in dict.fromkeys(reasons)]
    return "\n".join(text)


def report(arguments):
    with open(arguments.file) as file:
        print(table(json.load(file)))


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    for name, run in (("ray", ray_side), ("monarch", monarch_side)):
        command = commands.add_parser(name)
        command.add_argument("--actors", type=int, default=50)
        command.add_argument("--calls", type=int, default=1000)
        command.add_argument("--batches", type=int, default=8)
        command.add_argument("--rounds", type=int, default=30)
        command.set_defaults(run=run)
        if name == "ray":
            command.add_argument("--temporary", required=True)
    command = commands.add_parser("compare")
    command.add_argument("--weft", required=True)
    command.add_argument("--json")
    command.add_argument("--rounds", type=int, default=3)
    command.add_argument("--minutes", type=float, default=9)
    command.add_argument("--actors", type=int, default=100)
    command.add_argument("--peer-actors", type=int, default=50)
    command.set_defaults(run=compare)
    command = commands.add_parser("report")
    command.add_argument("file")
    command.set_defaults(run=report)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
