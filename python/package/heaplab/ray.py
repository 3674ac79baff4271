"""A sweep on a Ray cluster: one task a job. `python -m heaplab.ray plan.toml -o out` is `heaplab sweep` on many machines.

Every node needs the same `heaplab` (heaplab.find() says which). Jobs of times run only where a node has the resource `timing`, one at a time
(`ray start --resources '{"timing": 1}'`); jobs of space run anywhere. A job whose node dies is run anew, whole: a job's result is one file, which
the driver writes when it is there, so that nothing is lost or counted twice. A job whose nodes die again and again is a failure that names the job.
The driver reads the jobs as a stream and holds a few of them for each node; `python/simulations/sweep.py` runs it on 1,000 nodes that are made up.
"""

import argparse
import hashlib
import io
import json
import os
import pathlib
import shutil
import socket
import sys
import tarfile
import tempfile
from collections import Counter

try:
    import ray
except ImportError as error:
    raise ImportError("heaplab.ray needs Ray: pip install 'heaplab[ray]'") from error

from ._binary import Error, lines, run

__all__ = ["sweep", "main"]

# What of a bundle is the recording; the rest is made from it.
_MADE = ("replay-",)


# Bytes of a recording that are in memory at once, in the driver and on a node.
_PIECE_BYTES = 8 << 20
# A task whose worker or node dies is run again so often.
_RETRIES = 3


class _Pieces(io.RawIOBase):
    """A file that goes to the cluster's object store in pieces."""

    def __init__(self):
        self.hash, self.pieces, self._rest = hashlib.sha256(), [], bytearray()

    def write(self, data):
        self.hash.update(data)
        self._rest += data
        if len(self._rest) >= _PIECE_BYTES:
            self.end_piece()
        return len(data)

    def end_piece(self):
        self.pieces.append(ray.put(bytes(self._rest)))
        self._rest.clear()


class _Pulled(io.RawIOBase):
    """Pieces from the object store as a file."""

    def __init__(self, pieces):
        self._pieces, self._rest = iter(pieces), memoryview(b"")

    def readable(self):
        return True

    def readinto(self, buffer):
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(ray.get(piece))
        length = min(len(buffer), len(self._rest))
        buffer[:length], self._rest = self._rest[:length], self._rest[length:]
        return length


def _packed(bundle):
    """A recording's files in the object store, as pieces whose content depends on that of the files alone, and the hash of it."""
    packed = _Pieces()
    with tarfile.open(fileobj=packed, mode="w|") as archive:
        for path in sorted(pathlib.Path(bundle).iterdir()):
            if path.is_file() and not path.name.startswith(_MADE):
                entry = tarfile.TarInfo(path.name)
                entry.size = path.stat().st_size
                with open(path, "rb") as file:
                    archive.addfile(entry, file)
    packed.end_piece()
    return packed.hash.hexdigest(), packed.pieces


def _cached(name, digest, pieces):
    """The recording on this node, pulled once: it appears whole or not at all."""
    root = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "heaplab" / "bundles" / digest
    bundle = root / f"{name}.heaplab"
    if not bundle.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        unfinished = pathlib.Path(tempfile.mkdtemp(dir=root))
        try:
            with tarfile.open(fileobj=_Pulled(pieces), mode="r|") as archive:
                archive.extractall(unfinished, filter="data")
            unfinished.rename(bundle)
        except OSError:
            if not bundle.is_dir():  # unless another job of this node was quicker
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return bundle


# A node's death is no failure of the job; an exception of heaplab is.
@ray.remote(num_cpus=1, max_retries=_RETRIES)
def _run(job, plan, digest, pieces):
    name, file = job.split("/")
    bundle = _cached(name, digest, pieces)
    node = f"{socket.gethostname()}-{ray.get_runtime_context().get_node_id()[:8]}"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "plan.toml")
        # The plan of this bundle alone: JSON's strings, numbers and lists are TOML's.
        path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in {**plan, "bundles": [str(bundle)]}.items()))
        try:
            run("sweep", str(path), "-o", folder, "--job", job, "--node", node, "--quiet")
        except Error as error:
            raise Error(f"{node}: {error}") from None
        return pathlib.Path(folder, name, f"{file}.json").read_bytes()


def _written(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    os.replace(file.name, path)


def sweep(plan, output, at_once=None):
    """Runs what is missing in the folder `output` of the sweep that the file `plan` describes, on the cluster that `ray.init` reached.

    At most `at_once` jobs of each kind are with Ray at a time (four for each processor, or for each node's `timing`). Returns what went wrong, as
    texts: a job that fails does not keep others from running, and is run again by the next call. Raises heaplab.Error where the plan itself cannot
    be run.
    """
    # Begins the folder, or refuses one of another sweep, before a node works for it.
    jobs = map(json.loads, lines("sweep", str(plan), "-o", str(output), "--list"))
    following = next(jobs, None)
    asked, bundles, running, wrong = _plan(plan), {}, {}, []
    resources = ray.cluster_resources()
    nodes = {False: int(resources.get("CPU", 1)), True: int(resources.get("timing", 0))}
    with_ray = Counter()

    def submit():
        """Gives Ray jobs while it has fewer than their kind may be."""
        nonlocal following
        while following is not None:
            job = following
            if job["timed"] and not nodes[True]:
                raise Error("times are not run, because no node has the resource timing: ray start --resources '{\"timing\": 1}'")
            if with_ray[job["timed"]] >= (at_once or 4 * max(1, nodes[job["timed"]])):
                return
            if job["bundle"] not in bundles:
                bundles[job["bundle"]] = _packed(job["bundle"])
            task = _run.options(resources={"timing": 1} if job["timed"] else None)
            running[task.remote(job["job"], asked, *bundles[job["bundle"]])] = job
            with_ray[job["timed"]] += 1
            following = next(jobs, None)

    while True:
        try:
            submit()
        except (Error, OSError) as error:  # of the list, or of a recording: what is with Ray goes on
            wrong.append(str(error))
            following = None
        if not running:
            return wrong
        ray.wait(list(running), num_returns=1)
        done, _ = ray.wait(list(running), num_returns=len(running), timeout=0)
        for task in done:
            job = running.pop(task)
            with_ray[job["timed"]] -= 1
            said = _kept(task, job, output)
            wrong += [f"{job['job']}: {said}"] if said else []


def _kept(task, job, output):
    """Writes the result of a finished task; what went wrong, in words."""
    try:
        content = ray.get(task)
        found = json.loads(content)
        if found["experiment"] != job["experiment"]:
            raise Error(f"{found['node']['name']} runs another heaplab than the driver, or has another library of a heap; not kept")
        _written(pathlib.Path(output) / f"{job['job']}.json", content)
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.LocalRayletDiedError) as error:
        return f"its node or worker died {_RETRIES + 1} times: {str(error).splitlines()[0]}"
    except Exception as error:  # whatever it is, other jobs go on
        return str(getattr(error, "cause", None) or error)
    return None


def _plan(path):
    try:
        import tomllib
    except ImportError:  # before Python 3.11
        import tomli as tomllib
    with open(path, "rb") as file:
        return tomllib.load(file)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m heaplab.ray", description="A sweep on a Ray cluster: one task a job.")
    parser.add_argument("plan", help="the plan of heaplab sweep")
    parser.add_argument("-o", "--output", required=True, help="the folder of results; what is there is not run again")
    parser.add_argument("--address", default="auto", help="the cluster, as ray.init has it (auto)")
    asked = parser.parse_args(arguments)
    ray.init(address=asked.address, log_to_driver=False)
    wrong = sweep(asked.plan, asked.output)
    for each in wrong:
        print(f"heaplab.ray: {each}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
