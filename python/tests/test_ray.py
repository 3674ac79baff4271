"""A sweep on a Ray cluster of three nodes on this machine, one of which dies in the middle. Run with pytest or as it is; HEAPLAB names the binary."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import ray
from ray.cluster_utils import Cluster

import heaplab.ray

TRACES = pathlib.Path(__file__).parents[2] / "traces"
PLAN = """bundles = ["sqlite.heaplab", "python.heaplab"]
heaps = ["glibc", "elastic"]
repetitions = {repetitions}
"""


def _plan(folder, repetitions):
    for name in ("sqlite.heaplab", "python.heaplab"):
        shutil.copytree(TRACES / name, folder / name, ignore=shutil.ignore_patterns("replay-*"))
    path = folder / "plan.toml"
    path.write_text(PLAN.format(repetitions=repetitions))
    return path


def _heaplab(*arguments):
    return subprocess.run([os.environ.get("HEAPLAB", "heaplab"), "sweep", *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def _cluster():
    # The head schedules and runs nothing; each node times one block at a time.
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1, resources={"timing": 1}) for _ in range(3)]
    ray.init(address=cluster.address, log_to_driver=False)
    return cluster, nodes


def test_a_dead_node_loses_no_block_and_counts_none_twice():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        plan, out = _plan(folder, repetitions=4), folder / "out"
        cluster, nodes = _cluster()
        try:

            def kill_one():
                while len(list(out.glob("*/block-*.json"))) < 2:
                    time.sleep(0.05)
                cluster.remove_node(nodes[0], allow_graceful=False)

            killer = threading.Thread(target=kill_one)
            killer.start()
            wrong = heaplab.ray.sweep(plan, out)
            killer.join()
        finally:
            ray.shutdown()
            cluster.shutdown()
        assert wrong == [], wrong
        report = json.loads(_heaplab("report", out, "--json"))
        assert [workload["blocks"] for workload in report["workloads"]] == [4, 4]
        assert all(workload["has_space"] for workload in report["workloads"])
        assert not any("twice" in note or "not there" in note for note in report["notes"]), report["notes"]
        assert 2 <= len(report["nodes"]) <= 3, report["nodes"]
        assert sum(node["blocks"] + node["void_blocks"] for node in report["nodes"]) == 8
        assert len(list((folder / "cache" / "heaplab" / "bundles").iterdir())) == 2, "each recording is pulled once to this machine"

        # What does not depend on time is what one machine finds by itself, to the byte.
        alone = folder / "alone"
        for workload in ("sqlite", "python"):
            _heaplab(plan, "-o", alone, "--job", f"{workload}/space", "--quiet")
            ours, theirs = (json.loads((of / workload / "space.json").read_bytes()) for of in (alone, out))
            assert json.dumps(ours["results"]) == json.dumps(theirs["results"]), workload
        print(_heaplab("report", out))


def test_a_job_that_fails_is_told_and_the_others_run():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        plan, out = _plan(folder, repetitions=1), folder / "out"
        cluster, _ = _cluster()
        # The driver has another binary than the nodes, whose environment was taken when they started.
        binary = shutil.which(os.environ.get("HEAPLAB", "heaplab"))
        other = folder / "heaplab"
        shutil.copy(binary, other)
        with open(other, "ab") as file:
            file.write(b"\0")
        try:
            os.environ["HEAPLAB"] = str(other)
            wrong = heaplab.ray.sweep(plan, out)
        finally:
            os.environ["HEAPLAB"] = binary
            ray.shutdown()
            cluster.shutdown()
        assert len(wrong) == 4 and all("runs another heaplab than the driver" in each for each in wrong), wrong
        assert not list(out.glob("*/*.json"))
        try:
            heaplab.ray.sweep(folder / "no.toml", out)
        except heaplab.Error as error:
            assert "no.toml" in str(error)
        else:
            raise AssertionError("a plan that is not there is told")


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"{name}: passed")
    sys.exit(0)
