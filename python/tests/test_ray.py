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


def _cluster(nodes):
    # The head schedules and runs nothing; each node times one block at a time.
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = [cluster.add_node(num_cpus=1, resources={"timing": 1}) for _ in range(nodes)]
    ray.init(address=cluster.address, log_to_driver=False)
    return cluster, nodes


def test_a_dead_node_loses_no_block_and_counts_none_twice():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        plan, out = _plan(folder, repetitions=4), folder / "out"
        cluster, nodes = _cluster(3)
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
        cluster, _ = _cluster(1)
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


def test_a_job_that_kills_its_worker_again_and_again_fails_by_name():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        plan, out = _plan(folder, repetitions=1), folder / "out"
        binary = shutil.which(os.environ.get("HEAPLAB", "heaplab"))
        # The nodes' binary kills the worker for one job; its runs are counted.
        deadly = folder / "deadly"
        deadly.write_text(f'#!/bin/sh\ncase "$*" in *sqlite/space*) echo died >> {folder}/deaths; kill -9 $PPID;; *) exec {binary} "$@";; esac\n')
        deadly.chmod(0o755)
        os.environ["HEAPLAB"] = str(deadly)
        try:
            cluster, _ = _cluster(1)
            os.environ["HEAPLAB"] = binary
            wrong = heaplab.ray.sweep(plan, out)
        finally:
            os.environ["HEAPLAB"] = binary
            ray.shutdown()
            cluster.shutdown()
        assert len(wrong) == 1 and wrong[0].startswith("sqlite/space: its node or worker died 4 times: "), wrong
        assert len((folder / "deaths").read_text().splitlines()) == 4
        # The others were run.
        assert sorted(str(path.relative_to(out)) for path in out.glob("*/*.json")) == ["python/block-00000.json", "python/space.json", "sqlite/block-00000.json"]


def test_times_without_a_node_for_them_are_refused_in_words():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        plan, out = _plan(folder, repetitions=1), folder / "out"
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        ray.init(address=cluster.address, log_to_driver=False)
        try:
            wrong = heaplab.ray.sweep(plan, out)
        finally:
            ray.shutdown()
            cluster.shutdown()
        assert len(wrong) == 1 and "no node has the resource timing" in wrong[0], wrong
        assert len(list(out.glob("*/space.json"))) == 2, "space is measured anywhere"


def test_a_recording_goes_to_a_node_in_pieces():
    ray.init(num_cpus=1, log_to_driver=False)
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
            bundle = folder / "large.heaplab"
            bundle.mkdir()
            (bundle / "events.parquet").write_bytes(os.urandom(20 << 20))
            (bundle / "meta.json").write_text("{}")
            (bundle / "replay-words").write_text("made from the rest")
            digest, pieces = heaplab.ray._packed(bundle)
            assert len(pieces) == 3 and heaplab.ray._packed(bundle)[0] == digest
            cached = heaplab.ray._cached("large", digest, pieces)
            assert sorted(path.name for path in cached.iterdir()) == ["events.parquet", "meta.json"]
            assert (cached / "events.parquet").read_bytes() == (bundle / "events.parquet").read_bytes()
    finally:
        ray.shutdown()


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"{name}: passed")
    sys.exit(0)
