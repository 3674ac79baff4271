"""A sweep on a Ray cluster: one task a job. `python -m heaplab.ray plan.toml -o out` is `heaplab sweep` on many machines.

Every node needs the same `heaplab` (heaplab.find() says which). Jobs of times run only where a node has the resource `timing`, one at a time
(`ray start --resources '{"timing": 1}'`); jobs of space run anywhere. A job whose node dies is run anew, whole: a job's result is one file, which
the driver writes when it is there, so that nothing is lost or counted twice. The driver holds no more than a few jobs for each node at once.
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

try:
    import ray
except ImportError as error:
    raise ImportError("heaplab.ray needs Ray: pip install 'heaplab[ray]'") from error

from ._binary import Error, run

__all__ = ["sweep", "main"]

# What of a bundle is the recording; the rest is made from it.
_MADE = ("replay-",)


def _packed(bundle):
    """A recording's files as bytes that depend on their content alone, and their hash."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(pathlib.Path(bundle).iterdir()):
            if path.is_file() and not path.name.startswith(_MADE):
                entry = tarfile.TarInfo(path.name)
                entry.size = path.stat().st_size
                with open(path, "rb") as file:
                    archive.addfile(entry, file)
    content = packed.getvalue()
    return content, hashlib.sha256(content).hexdigest()


def _cached(name, digest, content):
    """The recording on this node, pulled once: it appears whole or not at all."""
    root = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "heaplab" / "bundles" / digest
    bundle = root / f"{name}.heaplab"
    if not bundle.is_dir():
        root.mkdir(parents=True, exist_ok=True)
        unfinished = pathlib.Path(tempfile.mkdtemp(dir=root))
        try:
            with tarfile.open(fileobj=io.BytesIO(ray.get(content[0])), mode="r") as archive:
                archive.extractall(unfinished, filter="data")
            unfinished.rename(bundle)
        except OSError:
            if not bundle.is_dir():  # unless another job of this node was quicker
                raise
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return bundle


# A node's death is no failure of the job; an exception of heaplab is.
@ray.remote(num_cpus=1, max_retries=-1)
def _run(job, plan, digest, content):
    name, file = job.split("/")
    bundle = _cached(name, digest, content)
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

    At most `at_once` jobs are with Ray at a time (four for each processor of the cluster). Returns what went wrong, as texts: a job that fails
    does not keep others from running, and is run again by the next call. Raises heaplab.Error where the plan itself cannot be run.
    """
    # Begins the folder, or refuses one of another sweep, before a node works for it.
    missing = map(json.loads, run("sweep", str(plan), "-o", str(output), "--list").splitlines())
    asked, bundles, running, wrong = _plan(plan), {}, {}, []
    room = at_once or 4 * max(1, int(ray.cluster_resources().get("CPU", 1)))

    def submit():
        job = next(missing, None)
        if job is not None:
            if job["bundle"] not in bundles:
                content, digest = _packed(job["bundle"])
                bundles[job["bundle"]] = digest, [ray.put(content)]
            task = _run.options(resources={"timing": 1} if job["timed"] else None)
            running[task.remote(job["job"], asked, *bundles[job["bundle"]])] = job

    for _ in range(room):
        submit()
    while running:
        (done,), _ = ray.wait(list(running), num_returns=1)
        job = running.pop(done)
        try:
            content = ray.get(done)
            found = json.loads(content)
            if found["experiment"] != job["experiment"]:
                raise Error(f"{found['node']['name']} runs another heaplab than the driver, or has another library of a heap; not kept")
            _written(pathlib.Path(output) / f"{job['job']}.json", content)
        except Exception as error:  # whatever it is, other jobs go on
            wrong.append(f"{job['job']}: {getattr(error, 'cause', None) or error}")
        submit()
    return wrong


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
