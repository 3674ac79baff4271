"""Reporters of a Python program, asked by `heaplab about` and recorded with `record --dmd`. Run with pytest; HEAPLAB names the binary."""

import contextlib
import json
import os
import pathlib
import stat
import subprocess
import sys
import time

import pytest

import heaplab
from heaplab import reporter

EXAMPLE = pathlib.Path(__file__).parents[1] / "examples" / "reporters.py"
BAD = """
import os, sys, threading
from heaplab import reporter

kept = [bytes(1000) for _ in range(100)]

def lies(sink):
    sink.bytes("explicit/lie", 1 << 40)
    sink.bytes("explicit/owed", -5)

def wrong(sink):
    sink.report("explicit/odd", 1)
    sink.report("", 1)
    sink.report("half", 0.5)
    sink.report("large", 1 << 70)
    sink.report("odd", 1, kind="stack")
    sink.report("long", 1, "x" * 20_000)
    sink.report("surrogate \\ud800", 1)
    sink.report("resident", 1)
    sink.skip("the other half is in use")

def raises(sink):
    sink.report("before", 1)
    raise RuntimeError("broken")

def slow():
    raise KeyError("pressure")

reporter.register(lies)
reporter.register(wrong)
reporter.register(raises)
gone = reporter.register(lambda sink: sink.report("gone", 1))
gone.unregister()
reporter.on_pressure(slow)
reporter.serve()
try:
    reporter.serve()
except Exception as error:
    assert "has a server already" in str(error)
else:
    raise AssertionError("one server a process")
child = os.fork()
if child == 0:
    # No server and no socket: the parent's stays when the child ends.
    reporter.serve()
    os.kill(os.getpid(), 9) if len(sys.argv) > 1 else sys.exit(0)
os.waitpid(child, 0)
print("heaplab about", os.getpid(), child, flush=True)
sys.stdin.read()
"""


def _heaplab(*arguments, code=0):
    done = subprocess.run([heaplab.find(), *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@contextlib.contextmanager
def _running(*arguments, prefix=(), env=None):
    """The pid of a program that ends with its standard input, and well."""
    command = [*prefix, sys.executable, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env) as program:
        line = program.stdout.readline()
        assert line.startswith("heaplab about "), line
        yield line.split()[2] if len(line.split()) == 3 else tuple(line.split()[2:])
        program.stdin.close()
        program.stdout.read()
        assert program.wait() == 0


def _explicit(pid):
    asked = json.loads(_heaplab("about", pid, "--json"))
    return asked["processes"][0]["explicit"], asked


def _amount(node, path):
    for name in path.split("/"):
        (node,) = [child for child in node["children"] if child["name"] == name]
    return node["amount"]


def _socket(pid):
    for folder in (f"/run/user/{os.geteuid()}/heaplab", f"/tmp/heaplab-{os.geteuid()}"):
        path = pathlib.Path(folder, f"reporters-{pid}")
        if path.exists():
            return path
    return None


def test_a_program_is_asked_and_pressed():
    with _running(EXAMPLE) as pid:
        explicit, asked = _explicit(pid)
        system = {node["name"]: node["amount"] for node in asked["processes"][0]["other"]}
        assert 0 < system["resident-unique"] < system["resident"] < system["vsize"]
        # 400 texts of some 580 characters each: malloc's, since pymalloc ends at 512 bytes.
        assert 400 * 560 < _amount(explicit, "store/texts/malloc") < 400 * 680
        # Two reporters name the journal: its 100 lines of 2,000 bytes and the list.
        assert _amount(explicit, "store/journal") == _amount(explicit, "log/lines") > 200_000
        parts = ("unclassified", "free-blocks", "free-pools", "overhead")
        pymalloc = sum(_amount(explicit, f"python/pymalloc/{part}") for part in parts)
        named = _amount(explicit, "store/texts/pymalloc") + _amount(explicit, "store/index/pymalloc") + 2 * _amount(explicit, "store/journal/pymalloc")
        assert (pymalloc + named) % (1 << 18) == 0, "whole arenas"
        # The forgotten blocks, less the journal that two name.
        assert 800_000 - 210_000 < _amount(explicit, "heap-unclassified")
        assert asked["processes"][0]["heap_allocated"] > 1_000_000
        (texts,) = [node for node in asked["processes"][0]["other"] if node["name"] == "texts"]
        assert texts["amount"] == 400

        path = _socket(pid)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        change = json.loads(_heaplab("pressure", pid, "--json"))["processes"][0]["explicit"]
        assert _amount(change, "store/index") < -5_000, change
        # The example has set a mark before.
        since = json.loads(_heaplab("about", pid, "--since", "loaded", "--json"))
        assert _amount(since["processes"][0]["explicit"], "store/index") == _amount(change, "store/index")
        then = json.loads(_heaplab("about", pid, "--at", "loaded", "--json"))
        assert then["marks"][0]["name"] == "loaded"
        assert _amount(then["processes"][0]["explicit"], "store/texts/malloc") == _amount(explicit, "store/texts/malloc")
        assert "no mark is called warm; it has loaded" in _heaplab("about", pid, "--at", "warm", code=1)
    assert _socket(pid) is None, "the socket goes with the program"


def test_what_a_reporter_does_wrong_is_said():
    with _running("-c", BAD) as (pid, child):
        assert _socket(child) is None
        text = _heaplab("about", pid)
        for words in (
            '"explicit/odd" of 1 is left out: below explicit/',
            '"" of 1 is left out: its path is empty',
            '"half" of 0.5 is left out: its amount is no whole number',
            '"large"',
            "expected a kind of non-heap, heap, other",
            "is longer than 16 KiB",
            "surrogate ?",
            '"resident" of 1 is left out: heaplab itself reports this path',
            "the other half is in use",
            "a reporter raised RuntimeError: broken",
            "before",
            # The reading itself shows what cannot be true.
            "explicit/lie",
            "explicit/owed is negative",
        ):
            assert " ".join(words.split()) in " ".join(text.replace("\n! ", " ").split()), (words, text)
        assert "gone" not in text
        done = subprocess.run([heaplab.find(), "pressure", pid], capture_output=True, text=True)
        assert "a pressure callback raised KeyError" in done.stdout.replace("\n! ", " ") + done.stderr
    with _running("-c", BAD, "killed") as (pid, child):
        assert "a reporter raised" in _heaplab("about", pid)
        assert _socket(child) is not None
    with _running(EXAMPLE):
        assert _socket(child) is None, "the next program removes a killed one's socket"


@pytest.mark.parametrize("is_python", [False, True])
def test_a_recording_shows_what_nobody_names(tmp_path, is_python):
    bundle = tmp_path / "app.heaplab"
    prefix = [heaplab.find(), "record", "-q", "--dmd", *["--python"] * is_python, "-o", bundle, "--"]
    with _running(EXAMPLE, prefix=map(str, prefix)) as pid:
        _explicit(pid)
    found = json.loads(_heaplab("about", bundle, "--json"))
    assert found["is_whole"] and found["asked"] == 3, "at the mark, by heaplab about, at the end"
    loaded = json.loads(_heaplab("about", bundle, "--json", "--at", "loaded"))
    assert loaded["mark"] == "loaded" and loaded["time_ns"] < found["time_ns"]
    assert "there are: loaded" in _heaplab("about", bundle, "--at", "begun", code=1)
    # The journal: 100 lines and the list's items; with malloc alone also the objects themselves.
    assert found["twice"]["blocks"]["count"] == (202 if is_python else 101), found["twice"]["blocks"]
    # The blocks of 100,000 bytes.
    assert found["unreported"]["groups"][0]["blocks"]["count"] == 8
    assert found["once"]["blocks"]["count"] >= 400
    first = found["twice"]["groups"][0]
    assert first["blocks"]["count"] == 100 and len(first["reported_at"]) == 2
    if is_python:
        assert sorted(stack[0].split(" ")[0] for stack in first["reported_at"]) == ["report", "report_journal"], first
        assert any("reporters.py" in frame for frame in first["allocated_at"]), first


def test_objects_are_measured_once_with_all_that_they_lead_to():
    shared = [bytes(5_000)]
    measured = {}

    def report(sink):
        measured["pair"] = sink.objects("explicit/pair", (shared, shared))
        measured["again"] = sink.objects("explicit/again", shared)
        measured["other"] = sink.objects("counted", [bytearray(3_000), None, 7, True, "", report])

    handle = reporter.register(report)
    try:
        reports, errors = reporter.collect()
    finally:
        handle.unregister()
    assert errors == []
    # A tuple of two, a list of one, the bytes.
    assert measured["pair"] == sys.getsizeof((1, 2)) + sys.getsizeof(shared) + sys.getsizeof(bytes(5_000))
    assert measured["again"] == 0
    assert 3_000 < measured["other"] < 3_500
    paths = {each["path"]: each for each in reports}
    assert paths["explicit/pair/malloc"]["kind"] == 1 and paths["explicit/pair/pymalloc"]["kind"] == 0
    assert paths["heap-allocated"]["amount"] > 0


def test_unregistering_waits_for_a_reporter_that_runs():
    import threading

    begun, done = threading.Event(), []

    def report(sink):
        begun.set()
        time.sleep(0.2)
        done.append(True)

    handle = reporter.register(report)
    thread = threading.Thread(target=reporter.collect)
    thread.start()
    begun.wait()
    handle.unregister()
    assert done == [True]
    thread.join()
    reporter.collect()
    assert done == [True]
