"""Recordings of small programs, held against what the programs know of themselves. Run with pytest."""

import json
import os
import shutil
import subprocess
import sys

import pytest

import heaplab

pa = pytest.importorskip("pyarrow", reason="tables need pyarrow")

PROGRAM = """
import heaplab
def keep(count):
    return [bytearray(10_000) for _ in range(count)]
kept = keep(int(__import__("sys").argv[1]))
assert heaplab.mark("kept")
del kept
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recorded")
    script = folder / "app.py"
    script.write_text(PROGRAM)
    return [heaplab.record([sys.executable, script, str(count)], folder / f"{count}.heaplab", python=True, cwd=folder) for count in (300, 500)]


def kept_bytes(table):
    rows = [row for row in table.to_pylist() if any(frame.startswith("keep  app.py") for frame in row["frames"])]
    return sum(row["bytes"] for row in rows)


def test_events_and_stacks_are_the_bundles_tables(recorded):
    one = recorded[0]
    events = one.events(["op", "stack", "size"])
    assert events.num_rows == one.meta["events"] and events.column_names == ["op", "stack", "size"]
    stacks = one.stacks()
    assert max(number for number in events["stack"].to_pylist() if number) < stacks.num_rows
    assert "keep" in stacks["function"].to_pylist()
    births = one.events(["op"], filters=[("op", "=", "alloc")])
    assert births.num_rows == one.meta["objects"]
    assert one.dataset().count_rows() == events.num_rows


def test_pandas_polars_and_duckdb_take_the_tables(recorded):
    events = recorded[0].events(["op", "size"])
    total = sum(size or 0 for size in events["size"].to_pylist())
    assert int(events.to_pandas()["size"].sum()) == total
    duckdb = pytest.importorskip("duckdb")
    assert duckdb.sql("SELECT sum(size) FROM events").fetchall()[0][0] == total
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(events)["size"].sum() == total


def test_live_is_what_the_program_holds(recorded):
    for count, one in zip((300, 500), recorded):
        assert one.status == 0 and one.marks()["name"].to_pylist() == ["kept"]
        # A bytearray has a byte more than asked for, and its object; the list holds pointers.
        assert count * 10_000 < kept_bytes(one.live(at="kept")) < count * 10_200
    assert kept_bytes(recorded[0].live(at="end")) == 0


def test_flame_has_the_bytes_of_live(recorded):
    live, flame = recorded[0].live(), recorded[0].flame()
    total = sum(live["bytes"].to_pylist())
    assert sum(flame["own"].to_pylist()) == total
    boxes = flame.to_pylist()
    assert sum(box["value"] for box in boxes if box["parent"] is None) == total
    below = [0] * len(boxes)
    for box in boxes:
        if box["parent"] is not None:
            assert box["parent"] < box["id"] and boxes[box["parent"]]["depth"] == box["depth"] - 1
            below[box["parent"]] += box["value"]
    assert all(box["value"] == box["own"] + inner for box, inner in zip(boxes, below))
    assert any(box["function"] == "keep" and box["value"] > 3_000_000 for box in boxes)


def test_findings_replay_and_compare_say_what_the_program_says(recorded):
    before, after = recorded
    told = subprocess.run([heaplab.find(), "report", "--json", before.path], capture_output=True, check=True)
    assert before.findings()["title"].to_pylist() == [each["title"] for each in json.loads(told.stdout)["findings"]["findings"]]
    heaps = before.replay(on=["glibc", "mimalloc"]).to_pylist()
    assert [heap["heap"] for heap in heaps] == ["glibc", "mimalloc"]
    assert all(heap["peak_resident_bytes"] > 3_000_000 and heap["failure"] is None for heap in heaps)
    changed = before.compare(after, at="kept")
    assert b"verdict" in changed.schema.metadata
    assert 200 * 10_000 < sum(changed["difference_bytes"].to_pylist()) < 200 * 10_500


def test_assertions_fail_with_the_functions_of_the_bytes(recorded):
    assert recorded[0].check("peak < 1GB") == ""
    assert "PyByteArray_Resize" in recorded[0].check("peak < 1MB")
    assert "nosuch" in recorded[0].check("peak('nosuch') < 1MB", strict=True)
    with pytest.raises(heaplab.Error, match="peek"):
        recorded[0].check("peek < 1MB")


def test_bad_input_is_an_error_that_says_what_to_do(recorded, tmp_path, monkeypatch):
    with pytest.raises(heaplab.Error, match="no recording.*heaplab record"):
        heaplab.open(tmp_path / "none.heaplab")
    later = tmp_path / "later.heaplab"
    shutil.copytree(recorded[0].path, later)
    (later / "meta.json").write_text(json.dumps({**recorded[0].meta, "format_version": 99}))
    with pytest.raises(heaplab.Error, match="format version 99"):
        heaplab.open(later)
    (later / "meta.json").write_text("{")
    with pytest.raises(heaplab.Error, match="damaged"):
        heaplab.open(later)
    with pytest.raises(heaplab.Error, match="4294967295"):
        recorded[0].live(process=4294967295)
    with pytest.raises(heaplab.Error, match="nosuch"):
        recorded[0].replay(on="nosuch")
    with pytest.raises(heaplab.Error, match="there are events"):
        recorded[0].table("../meta")
    with pytest.raises(heaplab.Error, match="force=True"):
        heaplab.record(["true"], recorded[0].path)
    with pytest.raises(heaplab.Error, match="was not recorded"):
        heaplab.record([tmp_path / "no-program"], tmp_path / "no.heaplab")
    with pytest.raises(heaplab.Error, match="EVERY"):
        heaplab.curve(["true"], vary="EVERY=640..20x6")
    monkeypatch.setenv("HEAPLAB", os.fspath(tmp_path / "nothing"))
    with pytest.raises(heaplab.Error, match="HEAPLAB names"):
        recorded[0].live()


def test_without_pyarrow_there_is_one_clear_error(recorded, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(heaplab.Error, match="pip install pyarrow"):
        recorded[0].events()
    assert "PyByteArray" in recorded[0].report()
