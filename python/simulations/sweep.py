"""A sweep of a million blocks on a thousand nodes that are made up: what the driver holds, what the files take, how long stragglers last.

    HEAPLAB=target/release/heaplab PYTHONPATH=python/package python3 python/simulations/sweep.py

The driver is `heaplab.ray.sweep` itself, the list of jobs is that of `heaplab sweep --list`, and the report is that of `heaplab sweep report` on
copies of a block that was really measured. The cluster is a simulation: a clock of its own, nodes of different speeds, some of which are very slow,
and all of which die now and then. docs/sweep.md has the figures.
"""

import argparse
import collections
import heapq
import itertools
import json
import os
import pathlib
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import types

TRACE = pathlib.Path(__file__).parents[2] / "traces" / "python.heaplab"
WORKLOADS = 10
#: A block takes a minute on a usual node, give or take (the deviation of the logarithm).
BLOCK_S, BLOCK_SPREAD = 60.0, 0.3
#: Nodes differ by their speed (the deviation of the logarithm); one in a hundred is five times slower.
NODE_SPREAD, SLOW_SHARE, SLOW_TIMES = 0.2, 0.01, 5.0
#: A node dies once in a week, and is away for ten minutes.
NODE_LIFE_S, AWAY_S = 7 * 86_400.0, 600.0


class Cluster:
    """Ray's part of a sweep, on a clock of its own. Each node runs one block at a time."""

    def __init__(self, nodes, seed):
        self.random = random.Random(seed)
        self.speeds = [speed_of(self.random) for _ in range(nodes)]
        self.now, self.work_s, self.lost_s = 0.0, 0.0, 0.0
        self.events, self.numbers = [], itertools.count()
        self.idle, self.waiting = collections.deque(range(nodes)), collections.deque()
        self.running, self.finished = {}, []
        self.deaths = self.again = self.most_again = self.failed = self.most_waiting = 0
        for node in range(nodes):
            self._at(self.random.expovariate(1 / NODE_LIFE_S), "dies", node)

    def _at(self, after, what, node):
        heapq.heappush(self.events, (self.now + after, next(self.numbers), what, node))

    def submit(self, task):
        task.seconds = self.random.lognormvariate(0, BLOCK_SPREAD) * BLOCK_S
        self.waiting.append(task)
        self._start()

    def _start(self):
        while self.idle and self.waiting:
            node, task = self.idle.popleft(), self.waiting.popleft()
            task.since, task.run = self.now, next(self.numbers)
            self.running[node] = task
            self._at(task.seconds / self.speeds[node], ("ends", task.run), node)

    def step(self):
        """To the next event at which a task is finished."""
        while not self.finished:
            self.now, _, what, node = heapq.heappop(self.events)
            task = self.running.get(node)
            if what == "dies":
                self.deaths += 1
                if task:
                    del self.running[node]
                    self.lost_s += self.now - task.since
                    task.deaths += 1
                    self.again += 1
                    self.most_again = max(self.most_again, task.deaths)
                    if task.deaths > task.retries:
                        self.failed += 1
                        task.error = WorkerCrashedError("its node died")
                        self.finished.append(task)
                    else:
                        self.waiting.appendleft(task)
                else:
                    self.idle.remove(node)
                self._at(AWAY_S, "returns", node)
                self._start()
            elif what == "returns":
                self.idle.append(node)
                self._at(self.random.expovariate(1 / NODE_LIFE_S), "dies", node)
                self._start()
            elif task and what == ("ends", task.run):
                del self.running[node]
                self.work_s += task.seconds
                task.node = node
                self.finished.append(task)
                self.idle.append(node)
                self._start()


def speed_of(chance):
    return chance.lognormvariate(0, NODE_SPREAD) / (SLOW_TIMES if chance.random() < SLOW_SHARE else 1)


class WorkerCrashedError(Exception):
    pass


class Task:
    __slots__ = ("job", "retries", "seconds", "since", "run", "deaths", "error", "node")

    def __init__(self, job, retries):
        self.job, self.retries, self.deaths, self.error = job, retries, 0, None


def made_up_ray(cluster):
    """The part of Ray that heaplab.ray uses."""
    ray = types.ModuleType("ray")

    class Remote:
        def __init__(self, retries):
            self.retries = retries

        def options(self, resources):
            return self

        def remote(self, job, *_):
            task = Task(job, self.retries)
            cluster.submit(task)
            return task

    def wait(tasks, num_returns, timeout=None):
        if timeout is None:
            cluster.most_waiting = max(cluster.most_waiting, len(tasks))
            cluster.step()
            return [], tasks
        done, cluster.finished = cluster.finished, []
        return done, tasks

    ray.remote = lambda num_cpus, max_retries: lambda _: Remote(max_retries)
    ray.put, ray.wait = len, wait
    nodes = len(cluster.speeds)
    ray.cluster_resources = lambda: {"CPU": nodes, "timing": nodes}
    ray.exceptions = types.SimpleNamespace(WorkerCrashedError=WorkerCrashedError, NodeDiedError=WorkerCrashedError, LocalRayletDiedError=WorkerCrashedError)
    return ray


def peak_mib(of=resource.RUSAGE_SELF):
    return resource.getrusage(of).ru_maxrss / 1024


def plan_of(folder, repetitions, workloads=WORKLOADS):
    names = [f"w{number}.heaplab" for number in range(workloads)]
    for name in names:
        shutil.copytree(TRACE, folder / name, ignore=shutil.ignore_patterns("replay-*"))
    path = folder / "plan.toml"
    path.write_text(f"bundles = {json.dumps(names)}\nheaps = ['glibc', 'jemalloc', 'mimalloc']\nrepetitions = {repetitions}\nonly = 'time'\n")
    return path


def driven(folder, nodes, blocks, seed):
    """The driver on the simulated cluster."""
    cluster = Cluster(nodes, seed)
    plan, out = plan_of(folder, -(-blocks // WORKLOADS)), folder / "out"
    sys.modules["ray"] = made_up_ray(cluster)
    import heaplab.ray

    kept = {}

    # In place of a file for each result: whether it is the first of its job.
    def write(task, job, output):
        if task.error:
            return f"its node or worker died {task.deaths} times"
        name, number = job["job"].split("/block-")
        seen = kept.setdefault(name, bytearray(-(-blocks // WORKLOADS)))
        assert not seen[int(number)], f"{job['job']} twice"
        seen[int(number)] = 1
        return None

    heaplab.ray._kept = write
    before, began, cpu = peak_mib(), time.perf_counter(), time.process_time()
    wrong = heaplab.ray.sweep(plan, out)
    wall, cpu, peak = time.perf_counter() - began, time.process_time() - cpu, peak_mib()
    count = sum(map(sum, kept.values()))
    assert count + len(wrong) == -(-blocks // WORKLOADS) * WORKLOADS, (count, len(wrong))
    hours = cluster.now / 3600
    ideal = cluster.work_s / sum(cluster.speeds) / 3600
    print(f"driver: {count:,} blocks on {nodes:,} nodes, {len(wrong)} failed; {wall:.0f} s here, {cpu / count * 1e6:.0f} us of its processor a block")
    print(f"  its memory: {before:.0f} MiB at the start, {peak:.0f} MiB at most; {cluster.most_waiting:,} jobs with Ray at most")
    print(f"  its list (heaplab sweep --list): {peak_mib(resource.RUSAGE_CHILDREN):.0f} MiB at most")
    print(f"time: {hours:.2f} h of the cluster's clock; {ideal:.2f} h if no node were ever idle or died ({100 * (hours / ideal - 1):.1f} % more)")
    print(f"  deaths: {cluster.deaths:,}; blocks run again: {cluster.again:,}, a block at most {cluster.most_again} times; work lost: {100 * cluster.lost_s / cluster.work_s:.3f} %")
    shards = sharded(cluster.speeds, count, seed)
    print(f"  as {nodes:,} shards (--shard i/{nodes}) without deaths: {shards / 3600:.2f} h, since the slowest node has as many blocks as any")
    return out


def sharded(speeds, blocks, seed):
    """How long the slowest of as many equal parts as nodes takes."""
    chance = random.Random(seed)
    each = -(-blocks // len(speeds))
    return max(sum(chance.lognormvariate(0, BLOCK_SPREAD) * BLOCK_S for _ in range(each)) / speed for speed in speeds)


def in_order(cells, block, seed=1):
    """The cells of a block in heaplab's own random order (crates/experiment: Plan::order)."""
    mask, state, items = (1 << 64) - 1, seed ^ block << 32, list(cells)
    for last in range(len(items) - 1, 0, -1):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & mask
        at = ((z ^ z >> 31) * (last + 1)) >> 64
        items[last], items[at] = items[at], items[last]
    return items


def reported(folder, blocks, nodes, seed):
    """`heaplab sweep report` on copies of a real block, each with the times and the name of a made-up node."""
    plan, out = plan_of(folder, blocks, workloads=1), folder / "out"
    heaplab = os.environ.get("HEAPLAB", "heaplab")
    subprocess.run([heaplab, "sweep", plan, "-o", out, "--job", "w0/block-00000", "-q"], check=True)
    real = json.loads((out / "w0" / "block-00000.json").read_text())
    by_heap = {cell["heap"]: json.dumps(cell["report"]) for cell in real["cells"]}
    names = ["glibc", "jemalloc", "mimalloc", "null", "canary"]
    assert [cell["heap"] for cell in real["cells"]] == in_order(names, 0), "heaplab's order of cells is another than here"
    chance = random.Random(seed)
    speeds, size = [speed_of(chance) for _ in range(nodes)], 0
    for block in range(blocks):
        node = block % nodes
        copy = {**real, "block": block, "node": {**real["node"], "name": f"node-{node}"}, "cells": []}
        for heap in in_order(names, block):
            report = json.loads(by_heap[heap])
            slower = chance.lognormvariate(0, 0.02) / speeds[node]
            if heap == "canary":
                report["canary"]["ns"] = int(report["canary"]["ns"] * slower)
            else:
                report["time"]["passes_ns"] = [int(ns * slower) for ns in report["time"]["passes_ns"]]
            copy["cells"].append({"heap": heap, "report": report})
        text = json.dumps(copy)
        size += len(text)
        (out / "w0" / f"block-{block:05}.json").write_text(text)
    began = time.perf_counter()
    program = subprocess.Popen([heaplab, "sweep", "report", out, "--json"], stdout=subprocess.PIPE)
    report = json.load(program.stdout)
    _, status, used = os.wait4(program.pid, 0)
    program.returncode = os.waitstatus_to_exitcode(status)
    assert program.returncode == 0
    (workload,) = report["workloads"]
    counted = workload["blocks"] - len(workload["void_blocks"])
    assert workload["blocks"] == blocks and len(report["nodes"]) == min(nodes, blocks)
    print(f"files: {blocks:,} blocks of {nodes:,} nodes, {size / blocks:.0f} bytes each")
    print(f"  heaplab sweep report: {time.perf_counter() - began:.1f} s, {used.ru_maxrss / 1024:.0f} MiB; {counted:,} blocks count")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--blocks", type=int, default=1_000_000)
    parser.add_argument("--reported", type=int, default=100_000, help="blocks of one workload that are written and reported, and a tenth of them (0: none)")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        driven(pathlib.Path(folder), asked.nodes, asked.blocks, asked.seed)
    for blocks in (asked.reported // 10, asked.reported):
        if blocks:
            with tempfile.TemporaryDirectory() as folder:
                reported(pathlib.Path(folder), blocks, asked.nodes, asked.seed)


if __name__ == "__main__":
    main()
