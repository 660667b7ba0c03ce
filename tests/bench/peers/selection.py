"""Peers of choosing a subset, as tests/bench/peers/selection runs them.

selection.py export STORE FILE.parquet              a store of points (apps/selection/point_store.h) for dataflow engines
selection.py spark FILE.parquet [options]           multi-round partition greedy as a dataflow; prints what came of it as JSON
selection.py submodlib|apricot STORE [--percent P]  graph cut by a library that holds all in one process; the same
selection.py report-spark|report-memory FILE...     one table of these, and of what `weft bench select --json` has written

The objective is Weft's (apps/selection/objective.h): UTILITY sum of u(v) over the chosen, less SIMILARITY sum of s(v, w) over neighbours that
are both chosen, each pair once; u and s are integers of 16 bits.
"""
import argparse
import heapq
import json
import math
import os
import resource
import struct
import sys
import threading
import time

import numpy as np

UTILITY, SIMILARITY = 9, 1
DELTA = 0.75


class Graph:
    """Points 0, 1, ... of a store: utilities; neighbours[first[v]:first[v + 1]] and their similarities, each edge from either end."""

    def __init__(self, store):
        with open(os.path.join(store, "points.json")) as file:
            index = json.load(file)
        self.points = index["points"]
        records = [self._shard(os.path.join(store, f"points-{shard:05}")) for shard in range(index["shards"])]
        self.utilities, degrees, self.neighbours, self.similarities = (np.concatenate(parts) for parts in zip(*records))
        self.first = np.concatenate(([0], np.cumsum(degrees)))
        if len(self.utilities) != self.points or len(self.neighbours) != index["directed_edges"]:
            sys.exit(f"{store} has not the points and edges that points.json names")

    @staticmethod
    def _shard(path):
        with open(path, "rb") as file:
            data = file.read()
        if data[:8] != b"WEFTSPL1":
            sys.exit(f"{path} is no file of points")
        utilities, degrees, edges, at = [], [], [], 8
        while True:
            (size,) = struct.unpack_from("<I", data, at)
            at += 16
            if size == 0:
                break
            end = at + size
            while at < end:
                _, utility, degree = struct.unpack_from("<IHH", data, at)
                utilities.append(utility)
                degrees.append(degree)
                edges.append(data[at + 8:at + 8 + 6 * degree])
                at += 8 + 6 * degree
        neighbours = np.frombuffer(b"".join(edges), dtype=[("id", "<u4"), ("similarity", "<u2")])
        return (np.array(utilities, np.int64), np.array(degrees, np.int64), neighbours["id"].astype(np.int64),
                neighbours["similarity"].astype(np.int64))

    def score(self, chosen):
        is_chosen = np.zeros(self.points, bool)
        is_chosen[chosen] = True
        ends = np.repeat(is_chosen, np.diff(self.first)) & is_chosen[self.neighbours]
        return int(UTILITY * self.utilities[is_chosen].sum() - SIMILARITY * (self.similarities[ends].sum() // 2))


def resident_bytes():
    """Of this process and those that it has started."""
    children, total = {}, 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append((int(pid), int(fields[21]) * resource.getpagesize()))
            if int(pid) == os.getpid():
                total = int(fields[21]) * resource.getpagesize()
        except OSError:
            continue
    ahead = [os.getpid()]
    while ahead:
        for pid, size in children.get(ahead.pop(), []):
            total += size
            ahead.append(pid)
    return total


class Peak(threading.Thread):
    """The most that resident_bytes() has been, looked at every 0.25 s."""

    def __init__(self):
        super().__init__(daemon=True)
        self.bytes = 0
        self.start()

    def run(self):
        while True:
            self.bytes = max(self.bytes, resident_bytes())
            time.sleep(0.25)


def export(arguments):
    import pyarrow as pa
    import pyarrow.parquet as pq
    graph = Graph(arguments.store)
    offsets = pa.array(graph.first.astype(np.int32))
    table = pa.table({"id": pa.array(np.arange(graph.points)),
                      "utility": pa.array(graph.utilities.astype(np.int32)),
                      "neighbours": pa.ListArray.from_arrays(offsets, pa.array(graph.neighbours)),
                      "similarities": pa.ListArray.from_arrays(offsets, pa.array(graph.similarities.astype(np.int32)))})
    pq.write_table(table, arguments.file, row_group_size=1 << 16)


def choose_greedily(part, count):
    """Rows of a table of points that greedy chooses, as if there were no others: a lazy heap, as in apps/selection/greedy.cc."""
    ids = part["id"].to_numpy()
    lists = part["neighbours"].combine_chunks()
    ends, degrees = lists.flatten().to_numpy(), np.diff(lists.offsets.to_numpy())
    losses = SIMILARITY * part["similarities"].combine_chunks().flatten().to_numpy().astype(np.int64)
    order = np.argsort(ids)
    place = np.minimum(np.searchsorted(ids, ends, sorter=order), len(ids) - 1)
    rows = order[place]
    inside = ids[rows] == ends
    first = np.concatenate(([0], np.cumsum(np.bincount(np.repeat(np.arange(len(ids)), degrees)[inside], minlength=len(ids))))).tolist()
    rows, losses = rows[inside].tolist(), losses[inside].tolist()
    gains = (UTILITY * part["utility"].to_numpy().astype(np.int64)).tolist()
    heap = list(zip((-gain for gain in gains), ((ids * 0x9E3779B1) & 0xFFFFFFFF).tolist(), range(len(ids))))
    heapq.heapify(heap)
    chosen = []
    while heap and len(chosen) < count:
        loss, tie, row = heap[0]
        if -loss != gains[row]:
            heapq.heapreplace(heap, (-gains[row], tie, row))
            continue
        heapq.heappop(heap)
        chosen.append(row)
        for edge in range(first[row], first[row + 1]):
            gains[rows[edge]] -= losses[edge]
    return ids[chosen]


def greedy(count):
    """What a group of a dataflow becomes: the ids that are chosen of it. One parameter: a second one would be the group's key."""
    import pyarrow as pa
    return lambda part: pa.table({"id": choose_greedily(part, count)})


def spark(arguments):
    from pyspark.sql import SparkSession, functions as F
    os.environ["PYSPARK_PYTHON"] = sys.executable
    began = time.monotonic()
    peak = Peak()
    builder = SparkSession.builder.master(f"local[{arguments.threads}]")
    for key, value in {"spark.driver.memory": "6g", "spark.sql.shuffle.partitions": arguments.partitions, "spark.ui.enabled": "false",
                       "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    start_seconds = time.monotonic() - began
    runs = []
    for _ in range(arguments.repeat):
        began = time.monotonic()
        points = session.read.parquet(os.path.abspath(arguments.file))
        n = points.count()
        count, capacity = int(n * arguments.percent / 100), math.ceil(n / arguments.partitions)
        left, in_play, rounds, kept = points, n, [], None
        for number in range(1, arguments.rounds + 1):
            stay = math.ceil(DELTA * (arguments.rounds - number) * (n - count) / arguments.rounds) + count
            parts = math.ceil(in_play / capacity)
            quota = math.ceil(stay / parts)
            # The part of a point is drawn; neighbour lists go with it, and greedy ignores what leaves the part.
            drawn = left.withColumn("part", F.pmod(F.xxhash64("id", F.lit(arguments.seed + number)), F.lit(parts)))
            ids = drawn.groupBy("part").applyInArrow(greedy(quota), "id long")
            if number == arguments.rounds:
                ids = ids.orderBy(F.xxhash64("id")).limit(count)
            ids = ids.persist()
            rounds.append({"partitions": parts, "points": ids.count(), "seconds": time.monotonic() - began})
            if kept is not None:
                kept.unpersist()
            kept, in_play = ids, stay
            left = points.join(ids, "id")
        # Fan out the lists of the chosen, keep what ends in a chosen one, reduce.
        utility = left.agg(F.sum("utility")).first()[0]
        edges = left.select(F.explode(F.arrays_zip("neighbours", "similarities")).alias("edge")).select(
            F.col("edge.neighbours").alias("id"), F.col("edge.similarities").alias("similarity"))
        similarity = edges.join(kept, "id").agg(F.sum("similarity")).first()[0] or 0
        seconds = time.monotonic() - began
        runs.append({"seconds": seconds, "chosen": kept.count(), "score": UTILITY * utility - SIMILARITY * (similarity // 2), "rounds": rounds})
        kept.unpersist()
    print(json.dumps({"peer": f"PySpark {session.version}, local[{arguments.threads}]", "start_seconds": start_seconds, "runs": runs,
                      "peak_bytes": peak.bytes}))
    session.stop()


def finish(name, graph, count, seconds, build_seconds, chosen):
    chosen = np.asarray(chosen)
    if len(set(chosen.tolist())) != count:
        sys.exit(f"{name} chose {len(set(chosen.tolist()))} points, not {count}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"peer": name, "points": graph.points, "score": graph.score(chosen), "build_seconds": build_seconds,
                      "greedy_seconds": seconds, "peak_bytes": peak}))


def kernel(graph, scale, diagonal):
    """A sparse matrix of scaled similarities, with this diagonal."""
    import scipy.sparse
    edges = scipy.sparse.csr_matrix((scale * graph.similarities.astype(np.float64), graph.neighbours, graph.first), (graph.points, graph.points))
    return (edges + scipy.sparse.diags(diagonal)).tocsr()


def submodlib(arguments):
    """Graph cut: sum of K(i, v) over all i and the chosen v, less LAMBDA sum of K(v, w) over ordered pairs of the chosen, v = w included. With
    LAMBDA = 2, K(v, w) = SIMILARITY s / 4 and K(v, v) so that a point alone adds UTILITY u(v), it is Weft's objective."""
    import types
    import scipy.sparse
    # The type of a sparse matrix is looked up where SciPy has not had it since 1.8 or so.
    if not hasattr(scipy.sparse, "csr"):
        scipy.sparse.csr = types.SimpleNamespace(csr_matrix=scipy.sparse.csr_matrix)
    from submodlib.functions.graphCut import GraphCutFunction
    graph = Graph(arguments.store)
    count = int(graph.points * arguments.percent / 100)
    sums = np.add.reduceat(graph.similarities, graph.first[:-1])
    began = time.monotonic()
    matrix = kernel(graph, SIMILARITY / 4, SIMILARITY / 4 * sums - UTILITY * graph.utilities)
    function = GraphCutFunction(n=graph.points, mode="sparse", lambdaVal=2, ggsijs=matrix, num_neighbors=int(np.diff(graph.first).max()) + 1)
    build_seconds = time.monotonic() - began
    began = time.monotonic()
    chosen = function.maximize(budget=count, optimizer="LazyGreedy", stopIfZeroGain=False, stopIfNegativeGain=False, verbose=False,
                               show_progress=False)
    finish("submodlib-py 0.0.3, GraphCut, sparse, LazyGreedy", graph, count, time.monotonic() - began, build_seconds, [v for v, _ in chosen])


def apricot(arguments):
    """Graph cut: alpha times row sums of K, less K(v, w) over ordered pairs of the chosen, v = w included. With alpha = 2, K(v, w) = SIMILARITY s / 2
    and K(v, v) so that a point alone adds UTILITY u(v) and a constant, which keeps K from being negative, it is Weft's objective."""
    from apricot import GraphCutSelection
    graph = Graph(arguments.store)
    count = int(graph.points * arguments.percent / 100)
    began = time.monotonic()
    diagonal = UTILITY * graph.utilities - 2 * SIMILARITY / 2 * np.add.reduceat(graph.similarities, graph.first[:-1])
    matrix = kernel(graph, SIMILARITY / 2, diagonal - diagonal.min())
    selector = GraphCutSelection(count, metric="precomputed", alpha=2, optimizer="lazy")
    build_seconds = time.monotonic() - began
    began = time.monotonic()
    selector.fit(matrix)
    finish("apricot-select 0.6.1, GraphCut, sparse, lazy", graph, count, time.monotonic() - began, build_seconds, selector.ranking)


def mebibytes(count):
    return f"{count / (1 << 20):,.0f} MiB"


def report_spark(arguments):
    with open(arguments.files[0]) as file:
        weft = json.load(file)
    with open(arguments.files[1]) as file:
        peer = json.load(file)
    ours = weft["arms"][0]
    best = min(peer["runs"], key=lambda run: run["seconds"])
    print(f"{weft['points']:,} points, {ours['chosen']:,} chosen, rounds of {[r['partitions'] for r in ours['rounds']]} partitions")
    print(f"Weft, two workers: f {ours['score'] / ours['chosen']:,.1f} a point, {ours['seconds']:.2f} s, "
          f"{mebibytes(max(use['peak_bytes'] for use in ours['workers']))} at most in a worker")
    for number, run in enumerate(peer["runs"], 1):
        print(f"{peer['peer']}, run {number} of the session: f {run['score'] / run['chosen']:,.1f} a point, {run['seconds']:.2f} s, rounds of "
              f"{[r['partitions'] for r in run['rounds']]} partitions")
    print(f"its session starts in {peer['start_seconds']:.1f} s; {mebibytes(peer['peak_bytes'])} at most in JVM and Python together")
    difference = best["score"] / ours["score"] - 1
    ratio = best["seconds"] / ours["seconds"]
    print(f"its f is {100 * difference:+.2f} % of ours; Weft is {ratio:.1f} times as fast as its best run")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"weft": weft, "spark": peer, "f_difference": difference, "speed_ratio": ratio}, file, indent=2)
    if best["chosen"] != ours["chosen"] or abs(difference) > 0.01:
        sys.exit("the two do not choose alike")


def report_memory(arguments):
    rows = []
    for path in arguments.files:
        with open(path) as file:
            result = json.load(file)
        if "central" in result:
            central = result["central"]
            rows += [{"peer": "Weft, one process", "points": result["points"], "score": central["score"], "build_seconds": central["load_seconds"],
                      "greedy_seconds": central["greedy_seconds"], "peak_bytes": central["peak_bytes"]}]
        else:
            rows += [result]
    print(f"{'':50} {'points':>9} {'f of central':>12} {'build':>9} {'greedy':>9} {'peak':>11}")
    scores = {}
    for row in rows:
        if "failed" in row:
            print(f"{row['peer']:50} {row['points']:>9,} {row['failed']}")
            continue
        reference = scores.setdefault(row["points"], row["score"])
        print(f"{row['peer']:50} {row['points']:>9,} {100 * row['score'] / reference:>10.3f} % {row['build_seconds']:>7.2f} s "
              f"{row['greedy_seconds']:>7.3f} s {mebibytes(row['peak_bytes']):>11}")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=2)


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("export")
    command.add_argument("store")
    command.add_argument("file")
    command.set_defaults(run=export)
    command = commands.add_parser("spark")
    command.add_argument("file")
    command.add_argument("--partitions", type=int, default=16)
    command.add_argument("--rounds", type=int, default=2)
    command.add_argument("--percent", type=float, default=10)
    command.add_argument("--threads", type=int, default=2)
    command.add_argument("--repeat", type=int, default=2)
    command.add_argument("--seed", type=int, default=1)
    command.set_defaults(run=spark)
    for name, run in (("submodlib", submodlib), ("apricot", apricot)):
        command = commands.add_parser(name)
        command.add_argument("store")
        command.add_argument("--percent", type=float, default=10)
        command.set_defaults(run=run)
    for name, run in (("report-spark", report_spark), ("report-memory", report_memory)):
        command = commands.add_parser(name)
        command.add_argument("--json")
        command.add_argument("files", nargs="+")
        command.set_defaults(run=run)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
