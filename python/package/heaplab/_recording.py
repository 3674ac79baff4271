"""A recording: the tables of its bundle, and what heaplab's engine says of it, as Arrow tables.

A bundle is a folder of Parquet files (docs/bundle-format.md): those are read as they are. What is
live at a moment, findings, replays and comparisons are what the program `heaplab` prints as JSON.
"""

from __future__ import annotations

import builtins
import json
import os
import warnings
from typing import TYPE_CHECKING, Iterable, Optional, Union

from . import _binary
from ._binary import Error

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.dataset

__all__ = ["Recording", "open"]

_FORMAT_VERSION = 1
_TABLES = ("events", "stacks", "frames", "modules", "processes", "threads", "arenas", "marks", "samples", "chunks", "resident")


def _pyarrow():
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise Error("tables need pyarrow: pip install pyarrow (or heaplab[tables])") from None
    return pyarrow


def open(path: Union[str, os.PathLike]) -> Recording:
    """Opens a bundle (`NAME.heaplab`). `Error` where there is none, or one of another format version."""
    return Recording(path)


class Recording:
    """One bundle. Tables are `pyarrow.Table`: pandas, Polars and DuckDB take them without a copy.

    Bytes and objects are whole numbers, times nanoseconds since the recording began. `process` is a
    pid, the name of a program, or `all`; without it the process with the largest peak is looked at.
    A moment (`at`) is `peak`, `end`, the name of a mark, or a time such as `1.5s`.
    """

    def __init__(self, path: Union[str, os.PathLike], status: Optional[int] = None):
        self.path = os.path.abspath(path)
        #: Exit status of the program, where `heaplab.record` has just run it.
        self.status = status
        #: The bundle's meta.json: program, allocator, events, objects, cut, losses ...
        self.meta = _read_meta(self.path)

    def __repr__(self):
        return f"heaplab.open({self.path!r})  # {self.meta.get('program')}, {self.meta.get('events')} events"

    def table(self, name: str, columns: Optional[list[str]] = None, filters=None) -> pyarrow.Table:
        """A table of the bundle. `columns` and `filters` are those of `pyarrow.parquet.read_table`:
        columns that are not asked for are not read, and row groups that cannot match are skipped."""
        return _pyarrow().parquet.read_table(self._file(name), columns=columns, filters=filters, memory_map=True)

    def dataset(self, name: str = "events") -> pyarrow.dataset.Dataset:
        """A table as `pyarrow.dataset.Dataset`, of which nothing is read yet: for DuckDB,
        `polars.scan_pyarrow_dataset`, or events that do not fit in memory."""
        _pyarrow()
        import pyarrow.dataset

        return pyarrow.dataset.dataset(self._file(name), format="parquet")

    def _file(self, name):
        file = os.path.join(self.path, f"{name}.parquet")
        if name not in _TABLES or not os.path.isfile(file):
            there = [each for each in _TABLES if os.path.isfile(os.path.join(self.path, f"{each}.parquet"))]
            raise Error(f"{self.path} has no table {name!r}: there are {', '.join(there)}")
        return file

    def events(self, columns: Optional[list[str]] = None, filters=None) -> pyarrow.Table:
        """One row an event, in the order in which they happened (docs/bundle-format.md)."""
        return self.table("events", columns, filters)

    def marks(self) -> pyarrow.Table:
        """`id`, `name`, `time_ns`, `process` of each named moment."""
        return self.table("marks")

    def stacks(self) -> pyarrow.Table:
        """The tree of stacks with their innermost function: `id`, `parent` (0: outermost), `frame`,
        `function`, `file`, `line`. Row 0 is "no stack"; `events().stack` is an `id`."""
        stacks = self.table("stacks")
        frames = self.table("frames", ["function", "file", "line"]).take(stacks["frame"])
        for name in frames.column_names:
            stacks = stacks.append_column(name, frames[name])
        return stacks

    def live(self, at: str = "peak", process: Optional[Union[int, str]] = None) -> pyarrow.Table:
        """What is live at a moment, the most bytes first: `stack` (`stacks().id`; 0: none),
        `objects`, `bytes` (asked for), `usable_bytes`, `frames` (a list, the innermost first)."""
        pa = _pyarrow()
        schema = pa.schema([("stack", pa.uint32()), ("objects", pa.uint64()), ("bytes", pa.uint64()), ("usable_bytes", pa.uint64()), ("frames", pa.list_(pa.string()))])
        report = _binary.run_json("report", "--json", "--at", str(at), *_process(process), self.path)
        label = _Labels(report)
        rows = [
            {"stack": row["stack"], **row["live"], "frames": label(row["stack"])}
            for row in report["moments"]["moment"]["stacks"]
            if row["live"]["objects"]
        ]
        return pa.Table.from_pylist(sorted(rows, key=lambda row: -row["bytes"]), schema)

    def flame(self, at: str = "peak", process: Optional[Union[int, str]] = None, weight: str = "in-use-bytes") -> pyarrow.Table:
        """A flame graph's boxes, parents first: `id`, `parent` (null: outermost), `depth` (0:
        outermost), `function`, `value` (with all that the function calls), `own`.

        `weight` is one of `heaplab export`: in-use-bytes, in-use-objects, allocated-bytes,
        allocated-objects."""
        pa = _pyarrow()
        text = _binary.run("export", "-f", "collapsed", "-o", "-", "--at", str(at), "--weight", weight, *_process(process), self.path)
        schema = pa.schema([("id", pa.uint32()), ("parent", pa.uint32()), ("depth", pa.uint32()), ("function", pa.string()), ("value", pa.uint64()), ("own", pa.uint64())])
        return pa.Table.from_pylist(_boxes(text), schema)

    def findings(self, process: Optional[Union[int, str]] = None, allocator: Optional[str] = None) -> pyarrow.Table:
        """What to change, in the order of `heaplab report` (docs/report-json.md): `kind`, `rank`,
        `function`, `title`, `advice`, `count`, `saves_at_peak_bytes`, `saves_bytes` (over the run),
        `saves_requests`, `confidence`, `minor`, `stack` (that with the largest share)."""
        pa = _pyarrow()
        asked = ["--allocator", allocator] if allocator else []
        report = _binary.run_json("report", "--json", *asked, *_process(process), self.path)
        schema = pa.schema(
            [(name, pa.string()) for name in ("kind", "rank", "function", "title", "advice")]
            + [("count", pa.uint64())]
            + [(name, pa.int64()) for name in ("saves_at_peak_bytes", "saves_bytes", "saves_requests")]
            + [("confidence", pa.string()), ("minor", pa.bool_()), ("stack", pa.uint32())]
        )
        rows = [
            {
                **{name: each[name] for name in ("kind", "rank", "function", "title", "advice", "count", "minor")},
                "saves_at_peak_bytes": each["saving"]["at_peak_bytes"],
                "saves_bytes": each["saving"]["total_bytes"],
                "saves_requests": each["saving"]["requests"],
                "confidence": each["confidence"]["level"],
                "stack": each["stacks"][0]["stack"] if each["stacks"] else 0,
            }
            for each in report["findings"]["findings"]
        ]
        return pa.Table.from_pylist(rows, schema)

    def replay(
        self,
        on: Union[str, Iterable[str]] = ("glibc", "jemalloc", "mimalloc"),
        *,
        time: bool = False,
        reps: Optional[int] = None,
        process: Optional[Union[int, str]] = None,
    ) -> pyarrow.Table:
        """The same workload on other heaps, one row a heap: `heap`, `version`,
        `peak_resident_bytes`, `end_resident_bytes`, `peak_committed_bytes`, `resident_per_requested`,
        `ns_per_event` with `ns_low` and `ns_high` (null without `time`), `failure` (null: none).

        Space is exact and needs one pass; `time=True` measures time as well, which takes minutes
        (`reps` blocks). The schema's metadata has `verdict`."""
        pa = _pyarrow()
        asked = ["--on", ",".join([on] if isinstance(on, str) else on), "-q", "--json"]
        asked += [] if time else ["--space"]
        asked += ["--reps", str(reps)] if reps else []
        result = _binary.run_json("replay", *asked, *_process(process), self.path)
        whole = ("peak_resident_bytes", "end_resident_bytes", "peak_committed_bytes")
        schema = pa.schema(
            [("heap", pa.string()), ("version", pa.string())]
            + [(name, pa.uint64()) for name in whole]
            + [(name, pa.float64()) for name in ("resident_per_requested", "ns_per_event", "ns_low", "ns_high")]
            + [("failure", pa.string())]
        )
        rows = []
        for heap in result["heaps"]:
            space, taken = heap.get("space") or {}, (heap.get("time") or {}).get("ns_per_event") or {}
            rows.append({
                "heap": heap["heap"], "version": heap["version"],
                **{name: space.get(name) for name in (*whole, "resident_per_requested")},
                "ns_per_event": taken.get("value"), "ns_low": taken.get("low"), "ns_high": taken.get("high"),
                "failure": "; ".join(each["reason"] for each in heap.get("failures", [])) or None,
            })
        return _said(pa.Table.from_pylist(rows, schema), result["verdict"])

    def compare(self, other: Union[Recording, str, os.PathLike], at: str = "peak", process: Optional[Union[int, str]] = None) -> pyarrow.Table:
        """What changed from this recording to `other`, one row a function, the largest difference
        first: `function`, `presence` (new, gone, both), `before_bytes`, `after_bytes`,
        `difference_bytes` live at the moment, and `difference_requests`. The schema's metadata has
        `verdict`."""
        pa = _pyarrow()
        after = other.path if isinstance(other, Recording) else Recording(other).path
        result = _binary.run_json("compare", "--json", "--at", str(at), *_process(process), self.path, after)
        schema = pa.schema([("function", pa.string()), ("presence", pa.string())] + [(name, pa.int64()) for name in ("before_bytes", "after_bytes", "difference_bytes", "difference_requests")])
        rows = [
            {
                "function": each["function"], "presence": each["presence"],
                "before_bytes": each["live_bytes"]["before"], "after_bytes": each["live_bytes"]["after"],
                "difference_bytes": each["live_bytes"]["difference"], "difference_requests": each["requests"]["difference"],
            }
            for each in result["functions"]
        ]
        return _said(pa.Table.from_pylist(rows, schema), result["verdict"]["sentences"])

    def check(self, *assertions: str, strict: bool = False) -> str:
        """The assertions of `heaplab check` (docs/gates.md) that do not hold, as heaplab words
        them; an empty text: all hold. `Error` where they cannot be checked.

        A function that no stack has makes every upper bound hold: this is a warning, as is
        anything else that the recording lacks; with `strict` it is a failure."""
        asked = [word for each in assertions for word in ("--assert", each)] + ["--strict"] * strict
        done = _binary.call("check", *asked, self.path, codes=(0, 1))
        if done.returncode:
            return (done.stdout + done.stderr).strip()
        if done.stderr:
            warnings.warn(done.stderr.strip(), stacklevel=2)
        return ""

    def report(self, *options: str) -> str:
        """The text of `heaplab report`."""
        return _binary.run("report", *options, self.path)

    def html(self) -> str:
        """The page of `heaplab report --html`: one self-contained document."""
        return _binary.run("report", "--html", "-", self.path)


def _read_meta(path):
    try:
        with builtins.open(os.path.join(path, "meta.json"), encoding="utf-8") as file:
            meta = json.load(file)
    except OSError as error:
        raise Error(f"{path} is no recording ({error.strerror}: meta.json): heaplab record writes one") from None
    except ValueError as error:
        raise Error(f"{path}/meta.json is damaged: {error}") from None
    version = meta.get("format_version") if isinstance(meta, dict) else None
    if version != _FORMAT_VERSION:
        raise Error(f"{path} has format version {version}; this package reads {_FORMAT_VERSION}: use the heaplab that wrote the bundle")
    return meta


def _process(process):
    return [] if process is None else ["--process", str(process)]


def _said(table, sentences):
    text = sentences if isinstance(sentences, str) else " ".join(sentences)
    return table.replace_schema_metadata({"verdict": text})


class _Labels:
    """Frames of a stack in words, those of inlined functions too."""

    def __init__(self, report):
        self.stacks, self.frames, self.modules = report["stacks"], report["frames"], report["modules"]
        self.known = {0: []}

    def __call__(self, stack):
        way = []
        while stack not in self.known:
            way.append(stack)
            stack = self.stacks[stack]["parent"]
        for stack in reversed(way):
            row = self.stacks[stack]
            self.known[stack] = self._frame(row["frame"]) + self.known[row["parent"]]
        return self.known[stack]

    def _frame(self, frame):
        labels = []
        while frame is not None:
            row = self.frames[frame]
            name = row["function"] or "?"
            place = f"  {os.path.basename(row['file'])}:{row['line']}" if row["file"] and row["line"] else ""
            labels.append(name + place)
            frame = row["inlined_into"]
        return labels


def _boxes(collapsed):
    boxes, known = [], {}
    for line in collapsed.splitlines():
        stack, value = line.rsplit(" ", 1)
        path, above = (), None
        for function in stack.split(";"):
            path += (function,)
            box = known.get(path)
            if box is None:
                parent = None if above is None else above["id"]
                box = known[path] = {"id": len(boxes), "parent": parent, "depth": len(path) - 1, "function": function, "value": 0, "own": 0}
                boxes.append(box)
            box["value"] += int(value)
            above = box
        above["own"] += int(value)
    return boxes
