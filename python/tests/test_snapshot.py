"""Snapshots of small programs, read as JSON and held against what the program knows of itself. Run with pytest or as it is."""

import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import weakref

import heaplab.snapshot


class Snapshot:
    """A snapshot as lists of dicts."""

    def __init__(self, path):
        with open(path, encoding="ascii") as file:
            raw = json.load(file)
        meta, strings = raw["snapshot"]["meta"], raw["strings"]
        assert len(set(strings)) == len(strings), "one copy of each"
        width = len(meta["node_fields"])
        self.nodes = []
        for at in range(0, len(raw["nodes"]), width):
            row = dict(zip(meta["node_fields"], raw["nodes"][at : at + width]))
            row.update(kind=meta["node_types"][0][row["type"]], name=strings[row["name"]], edges=[], place=None)
            self.nodes.append(row)
        assert len(self.nodes) == raw["snapshot"]["node_count"]
        edge = iter(range(0, len(raw["edges"]), 3))
        for node in self.nodes:
            for _ in range(node["edge_count"]):
                kind, name, to = raw["edges"][(at := next(edge)) : at + 3]
                kind = meta["edge_types"][0][kind]
                name = name if kind in ("element", "hidden") else strings[name]
                node["edges"].append((kind, name, self.nodes[to // width]))
        assert next(edge, None) is None
        for at in range(0, len(raw["locations"]), 4):
            node, *place = raw["locations"][at : at + 4]
            self.nodes[node // width]["place"] = place

    def named(self, name):
        return [node for node in self.nodes if node["name"] == name]

    def ids(self, name):
        return {node["id"] for node in self.named(name) if node["kind"] == "object"}


def edge(node, name):
    found = [(kind, target) for kind, known, target in node["edges"] if known == name]
    assert len(found) == 1, (name, [each[:2] for each in node["edges"]])
    return found[0]


def taken(**options):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.heapsnapshot")
        result = heaplab.snapshot.write(path, **options)
        assert os.listdir(folder) == ["a.heapsnapshot"]
        assert os.path.getsize(path) == result["bytes"]
        enabled = gc.isenabled()
        gc.disable()  # or it would look through the parsed rows again and again
        try:
            return Snapshot(path)
        finally:
            if enabled:
                gc.enable()


class Session:
    def __init__(self, user):
        self.user = user
        self.tags = ["a", "b"]
        self.data = {1: "one", "key": (1.5, None), ("tuple",): b"x", -7: 2**70}


class Slotted:
    __slots__ = ("left", "right")

    def __init__(self):
        self.left, self.right = [1], Session("in a slot")


class Mapping(dict):
    pass


class Items(list):
    pass


def closure(captured):
    def inner():
        return captured

    return inner


START = gc.get_freeze_count()
SESSIONS = [Session("Grüße \ud800 " + "x" * 2000)]
SLOTTED = Slotted()
MAPPING = Mapping(first=["in a mapping"])
MAPPING.extra = ["an attribute"]
ITEMS = Items([["in items"], ["in items too"]] * 100)
CLOSURE = closure(SLOTTED)


def test_references_have_names():
    snapshot = taken(last=True)
    named = snapshot.named
    main = edge(snapshot.nodes[0], __name__)[1]
    namespace = edge(main, "__dict__")[1]
    session = edge(edge(namespace, "SESSIONS")[1], 0)[1]
    assert session["name"] == f"{__name__}.Session" and session["kind"] == "object"
    where = edge(session, "__dict__")[1] if sys.version_info < (3, 11) else session
    user = edge(where, "user")[1]
    # Cut as V8 cuts; a surrogate alone survives.
    assert user["kind"] == "string" and user["name"] == ("Grüße \ud800 " + "x" * 2000)[:1024]
    assert edge(session, "__class__")[1]["name"] == "type"
    data = edge(where, "data")[1]
    assert edge(data, 1)[1]["name"] == "one"
    assert edge(edge(data, "key")[1], 0)[1]["name"] == "1.5"
    assert edge(data, "<tuple>")[1]["name"] == "bytes"
    assert edge(data, "-7")[1]["name"] == "int of more than 64 bits"
    slotted = edge(namespace, "SLOTTED")[1]
    assert edge(slotted, "right")[1]["name"] == f"{__name__}.Session"
    mapping = edge(namespace, "MAPPING")[1]
    assert edge(edge(mapping, "first")[1], 0)[1]["name"] == "in a mapping"
    items = edge(namespace, "ITEMS")[1]
    assert edge(edge(items, 199)[1], 0)[1]["name"] == "in items too"
    function = edge(namespace, "CLOSURE")[1]
    line = closure.__code__.co_consts[1].co_firstlineno if hasattr(closure.__code__.co_consts[1], "co_firstlineno") else CLOSURE.__code__.co_firstlineno
    assert function["kind"] == "closure" and function["name"] == f"closure.<locals>.inner test_snapshot.py:{line}"
    assert function["place"][1:] == [line - 1, 0]
    cell = edge(edge(function, "__closure__")[1], 0)[1]
    assert edge(cell, "cell_contents")[1] is slotted
    code = edge(function, "__code__")[1]
    assert code["kind"] == "code" and edge(code, "co_filename")[1]["name"].endswith("test_snapshot.py")
    assert named("list") and named("dict")


def test_texts_are_those_of_the_objects_whatever_else_has_them():
    # The same text twice, as string, number, key, class and attribute; equal when cut; of every width.
    long = "y" * 1024
    texts = ["twin", "".join(["tw", "in"]), "12", "list", "user", "é" * 3, "\u20ac" * 2000, "\U0001f600", "\ud800", "", long, long + "a", long + "b"]
    numbers = [12, 2**62, -1, 2**63, True, 1.5, float("inf"), 1e300]
    keyed = {"twin": 1, "12": 2, "only a key": 3, 12: 4}
    snapshot = taken(last=True)
    frame = [target for _, name, target in snapshot.nodes[0]["edges"] if "test_texts_are_those" in str(name)][0]
    found = edge(frame, "texts")[1]
    assert [edge(found, at)[1]["name"] for at in range(len(texts))] == [text[:1024] for text in texts]
    assert all(edge(found, at)[1]["kind"] == "string" for at in range(len(texts)))
    found = edge(frame, "numbers")[1]
    named = [edge(found, at)[1]["name"] for at in range(len(numbers))]
    assert named == ["12", str(2**62), "-1", "int of more than 64 bits", "1", "1.5", "inf", "1e300"], named
    names = {name for kind, name, _ in edge(frame, "keyed")[1]["edges"] if kind in ("property", "element")}
    assert names == {"twin", "12", "only a key", 12}, names
    assert len(keyed) == 4


def test_what_other_threads_let_go_of_lives_until_the_file_is_written():
    # A thread that runs between the collector's list and the walk leaves objects that only the list holds.
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.heapsnapshot")
        written = []

        class Fleeting:
            def __init__(self, number):
                self.text = f"held by the list alone {number}"

            def __del__(self):
                written.append(os.path.exists(path))

        real = gc.get_objects

        def get_objects():
            fleeting = [Fleeting(number) for number in range(100)]
            return real() if fleeting else None

        gc.get_objects = get_objects
        try:
            heaplab.snapshot.write(path, last=True)
        finally:
            gc.get_objects = real
        assert written == [True] * 100, written
        assert all(len(Snapshot(path).named(f"held by the list alone {number}")) == 1 for number in (0, 99))


def test_threads_that_run_on_do_no_harm():
    # Objects come and go in other threads up to the walk itself.
    program = """if True:
        import sys, threading, heaplab.snapshot
        class Session:
            def __init__(self, number):
                self.parts = [{f"part {at}": [number, at]} for at in range(3)]
        done = threading.Event()
        def work():
            while not done.is_set():
                sessions = [Session(number) for number in range(200)]
        threads = [threading.Thread(target=work) for _ in range(3)]
        ballast = [{"a": [number]} for number in range(50_000)]
        for thread in threads: thread.start()
        try:
            for _ in range(3): heaplab.snapshot.write(sys.argv[1], last=True)
        finally:
            done.set()
            for thread in threads: thread.join()
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "a.heapsnapshot")
        ran = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True)
        assert ran.returncode == 0, (ran.returncode, ran.stderr)
        assert len(Snapshot(path).nodes) > 100_000


def test_frames_are_roots_with_their_variables():
    local = Session("only a variable of this frame")
    snapshot = taken(last=True)
    here = [(name, target) for kind, name, target in snapshot.nodes[0]["edges"] if "test_frames_are_roots_with" in str(name)]
    assert len(here) == 1 and here[0][0].startswith("MainThread #1 "), here
    kind, session = edge(here[0][1], "local")
    assert kind == "context" and session["name"] == f"{__name__}.Session"
    del local
    gc.collect()


def test_sizes_are_those_of_getsizeof():
    samples = {
        "list": [1] * 37, "dict": {str(n): n for n in range(99)}, "tuple": (1,) * 13, "set": set(range(50)), "instance": Session("u"),
        "slotted": Slotted(), "bytes": b"abc" * 9, "text": "é" * 77, "long": 3**200, "type": Session, "static type": dict, "function": closure,
        "module": os, "mapping": MAPPING, "float": 1.25, "frozenset": frozenset("abc"), "bytearray": bytearray(1000),
        "deque": __import__("collections").deque(range(100)),
    }
    samples["keys"] = None
    snapshot = taken(last=True)
    frame = [target for _, name, target in snapshot.nodes[0]["edges"] if "test_sizes_are" in str(name)][0]
    node = edge(frame, "samples")[1]
    for name, value in samples.items():
        if name != "keys":
            assert edge(node, name)[1]["self_size"] == sys.getsizeof(value), (name, edge(node, name)[1]["self_size"], sys.getsizeof(value))


def test_an_object_keeps_its_id_and_a_reused_address_gets_a_new_one():
    kept = [Session(str(n)) for n in range(50)]
    lost = [Session(str(n)) for n in range(50)]
    lost_lists = [[n] for n in range(200)]
    first = taken()
    name = f"{__name__}.Session"
    addresses = {id(each) for each in lost} | {id(each) for each in lost_lists}
    del lost, lost_lists
    reused = [Session(str(n)) for n in range(50)]
    reused_lists = [[n] for n in range(200)]
    again = {id(each) for each in reused} | {id(each) for each in reused_lists}
    assert addresses & again, "the test needs reused addresses"
    second = taken()
    try:
        same = first.ids(name) & second.ids(name)
        outside = 2  # SESSIONS and the one in a slot
        assert len(same) == len(kept) + outside, (len(same), len(first.ids(name)), len(second.ids(name)))
        assert len(second.ids(name) - first.ids(name)) == len(reused), (len(first.ids(name)), len(second.ids(name)), len(same))
        new_lists = second.ids("list") - first.ids("list")
        assert len(new_lists) >= 200 + 50, len(new_lists)
        assert len(second.nodes) == len({node["id"] for node in second.nodes})
        assert all(node["id"] % 2 == 1 for node in second.nodes)
    finally:
        heaplab.snapshot.forget()
    assert gc.get_freeze_count() <= START


def test_cycles_born_later_are_collected_while_others_wait():
    class Node:
        pass

    old = Node()
    old.me = old
    seen_old = weakref.ref(old)
    taken()
    del old
    new = Node()
    new.me = new
    seen_new = weakref.ref(new)
    del new
    gc.collect()
    assert seen_old() is not None and seen_new() is None
    taken(last=True)
    assert seen_old() is None and gc.get_freeze_count() <= START and gc.isenabled()


def test_strange_objects_are_walked():
    class Nothing:
        def __getattribute__(self, name):
            raise RuntimeError("no attribute may be asked for")

        __sizeof__ = None

    class Loud:
        def __sizeof__(self):
            raise AssertionError("no Python code may run")

        def __hash__(self):
            return 1

        def __eq__(self, other):
            raise AssertionError("no Python code may run")

    class Meta(type):
        def __getattribute__(cls, name):
            raise AssertionError("no Python code may run")

    class Odd(metaclass=Meta):
        __slots__ = ("a", "__weakref__")

    odd = Odd()
    generator = (x for x in [1, 2])
    next(generator)
    deep = []
    for _ in range(200_000):
        deep = [deep]
    recursive = []
    recursive.append(recursive)
    everything = [Nothing(), Loud(), {Loud(): 1}, odd, weakref.ref(odd), generator, deep, recursive, memoryview(b"x"), iter([1]), sys.stdout,
                  type(None), NotImplemented, ..., object(), range(9), slice(1), super(Odd, odd), property(), staticmethod(len), lambda: 0]
    before = len(everything)
    snapshot = taken(last=True)
    assert len(everything) == before and len(snapshot.nodes) > 200_000
    while deep:
        deep = deep.pop()


def test_a_thread_that_ends_before_the_walk_leaves_no_address_behind():
    class Held:
        pass

    ready, let_go, known = threading.Event(), threading.Event(), []

    def program():
        held = Held()
        known.append(weakref.ref(held))
        ready.set()
        let_go.wait()

    thread = threading.Thread(target=program)
    thread.start()
    ready.wait()
    add_frames = heaplab.snapshot._add_frames

    def add_frames_and_end_the_thread(*arguments):
        add_frames(*arguments)
        let_go.set()
        thread.join()
        assert known[0]() is not None, "its frame was noted, and what it held is gone"

    heaplab.snapshot._add_frames = add_frames_and_end_the_thread
    try:
        snapshot = taken(last=True)
    finally:
        heaplab.snapshot._add_frames = add_frames
        let_go.set()
    assert any(node["kind"] == "object" and node["name"].endswith(".Held") for node in snapshot.nodes)
    assert known[0]() is None, "it is let go of after the walk"


def test_a_file_is_its_owners_alone_unless_told_otherwise():
    before = os.umask(0o027)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for options, mode in (({}, 0o600), ({"mode": 0o666}, 0o640)):
                path = os.path.join(folder, "a.heapsnapshot")
                heaplab.snapshot.write(path, **options)
                assert os.stat(path).st_mode & 0o777 == mode
    finally:
        os.umask(before)


def test_a_free_threaded_build_is_refused_in_so_many_words():
    program = "import sysconfig; sysconfig.get_config_var = lambda name: 1; import heaplab.snapshot"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 1 and "free-threaded builds" in ran.stderr, ran.stderr


def test_a_failure_leaves_nothing():
    try:
        heaplab.snapshot.write(os.path.join(tempfile.gettempdir(), "no such folder", "a.heapsnapshot"))
    except OSError as error:
        assert "no such folder" in str(error)
    else:
        raise AssertionError("an error is expected")
    assert gc.isenabled()


def test_a_script_is_run_and_written():
    with tempfile.TemporaryDirectory() as folder:
        script, out = os.path.join(folder, "script.py"), os.path.join(folder, "out.heapsnapshot")
        with open(script, "w") as file:
            file.write("import sys, os, signal\nclass Kept: pass\nkept = Kept()\nos.kill(os.getpid(), signal.SIGUSR2)\nsys.exit(len(sys.argv))\n")
        run = subprocess.run([sys.executable, "-m", "heaplab.snapshot", "-o", out, script, "a", "b"], capture_output=True, text=True, cwd=folder)
        assert run.returncode == 3, run.stderr
        assert run.stderr.count(" references, ") == 2, run.stderr
        assert "; what C code holds by itself is in no file" in run.stderr, run.stderr
        for path in (out, os.path.join(folder, "out.1.heapsnapshot")):
            snapshot = Snapshot(path)
            assert len(snapshot.named("__main__.Kept")) == 1, path


def test_a_script_that_cannot_begin_writes_nothing_and_shows_no_frame_of_ours():
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "broken.py"), "w") as file:
            file.write("def f(:\n")
        with open(os.path.join(folder, "raises.py"), "w") as file:
            file.write("def f():\n    raise KeyError('mine')\nf()\n")
        out = os.path.join(folder, "out.heapsnapshot")
        with open(out, "w") as file:
            file.write("from before")
        run = [sys.executable, "-m", "heaplab.snapshot", "--profile"]
        for words, said in (["none.py"], "cannot open none.py"), (["broken.py"], "SyntaxError"), (["-m", "no.such.module"], "no.such.module"):
            done = subprocess.run(run + words, cwd=folder, capture_output=True, text=True)
            assert done.returncode != 0 and said in done.stderr, done.stderr
            assert "heaplab/snapshot.py" not in done.stderr, done.stderr
            with open(out) as file:
                assert file.read() == "from before", words
        with open(os.path.join(folder, "database.py"), "w") as file:
            file.write("import sqlite3\n")
        done = subprocess.run(run + ["database.py"], cwd=folder, capture_output=True, text=True)
        assert "what C code holds by itself (pages of SQLite) is in no file" in done.stderr, done.stderr
        done = subprocess.run(run + ["raises.py"], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 1 and "KeyError: 'mine'" in done.stderr and "heaplab/snapshot.py" not in done.stderr, done.stderr
        assert "walked for " in done.stderr and "wrote for " in done.stderr, done.stderr
        Snapshot(out)


def test_arrays_of_objects_show_what_they_hold_and_the_first_line_says_how_much_that_is():
    try:
        import numpy  # noqa: F401
    except ImportError:
        assert os.environ.get("HEAPLAB_REQUIRE_ORACLES") != "1", "numpy is required and not installed"
        print("skipped: numpy is not installed")
        return
    program = """
import numpy
class Held: pass
class Array(numpy.ndarray): pass
kept = numpy.array([[Held(), Held()], [Held(), Held()]], dtype=object)
view = kept.T[1:]
own = numpy.empty(3, dtype=object).view(Array).copy()
own[:] = [Held(), Held(), None]
strings = numpy.array(["text %d" % number for number in range(1000)], dtype=object)
numbers = numpy.arange(1 << 20, dtype="int64")
unwritten = numpy.zeros(1 << 28, dtype="uint8")
"""
    with tempfile.TemporaryDirectory() as folder:
        script, out = os.path.join(folder, "script.py"), os.path.join(folder, "out.heapsnapshot")
        with open(script, "w") as file:
            file.write(program)
        run = subprocess.run([sys.executable, "-m", "heaplab.snapshot", "-o", out, script], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        snapshot = Snapshot(out)
    first = run.stderr.splitlines()[0]
    assert " MiB in objects and 264 MiB in buffers of NumPy, of " in first and "never written" in first, run.stderr
    main = edge(edge(snapshot.nodes[0], "__main__")[1], "__dict__")[1]
    elements = lambda name: [target["name"] for kind, _, target in edge(main, name)[1]["edges"] if kind == "element"]
    assert elements("kept") == ["__main__.Held"] * 4
    assert elements("own") == ["__main__.Held"] * 2 + ["NoneType"] and edge(main, "own")[1]["name"] == "__main__.Array"
    assert elements("strings") == [f"text {number}" for number in range(1000)]
    assert elements("view") == [] and edge(edge(main, "view")[1], "base")[1] is edge(main, "kept")[1]
    assert edge(main, "numbers")[1]["self_size"] > 8 << 20


def test_trees_of_lxml_belong_to_their_documents():
    try:
        import lxml  # noqa: F401
    except ImportError:
        assert os.environ.get("HEAPLAB_REQUIRE_ORACLES") != "1", "lxml is required and not installed"
        print("skipped: lxml is not installed")
        return
    program = """
from lxml import etree
root = etree.Element("root", nsmap={"p": "http://example.org/p"})
for number in range(1000):
    item = etree.SubElement(root, "item", place="y" * 50)
    item.text = "x" * 100
    item.append(etree.Comment("c" * 20))
page = etree.HTML("<p>short<b>bold</b></p>")
"""
    with tempfile.TemporaryDirectory() as folder:
        script, out = os.path.join(folder, "script.py"), os.path.join(folder, "out.heapsnapshot")
        with open(script, "w") as file:
            file.write(program)
        run = subprocess.run([sys.executable, "-m", "heaplab.snapshot", "-o", out, script], capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        snapshot = Snapshot(out)
    main = edge(edge(snapshot.nodes[0], "__main__")[1], "__dict__")[1]
    document = lambda name: next(target for _, _, target in edge(main, name)[1]["edges"] if target["name"] == "lxml.etree._Document")
    # By sizeof of libxml2's structures: an element, its text, an attribute with text, a comment.
    item = 120 + (120 + 101) + (96 + 120 + 51) + (120 + 21)
    tree = 176 + 120 + 48 + len("http://example.org/p\0p\0") + 1000 * item
    assert 0 <= document("root")["self_size"] - tree < 200, (document("root")["self_size"], tree)
    # Its declaration of a type, html, body and two elements, two texts.
    assert 176 + 6 * 120 <= document("page")["self_size"] < 176 + 8 * 120 + 200, document("page")
    assert " in trees of lxml, of " in run.stderr.splitlines()[0], run.stderr


def test_an_output_that_cannot_be_written_is_refused_before_the_script_and_a_signal_s_never_raises():
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "script.py")
        with open(script, "w") as file:
            file.write(
                "import os, signal, shutil\nprint('began')\nshutil.rmtree('out')\nos.kill(os.getpid(), signal.SIGUSR2)\n"
                "print('went on')\nos.mkdir('out')\n"
            )
        run = [sys.executable, "-m", "heaplab.snapshot", "-o"]
        os.mkfifo(os.path.join(folder, "pipe"))
        refused = ("none/out.heapsnapshot", "there is no folder"), (".", "it is a folder"), ("pipe", "it is no regular file")
        for output, why in refused:
            done = subprocess.run(run + [output, script], cwd=folder, capture_output=True, text=True)
            assert done.returncode == 1 and why in done.stderr and "was not started" in done.stderr and not done.stdout, done
        os.mkdir(os.path.join(folder, "out"))
        done = subprocess.run(run + ["out/a.heapsnapshot", script], cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout == "began\nwent on\n", done
        assert "no snapshot at this signal" in done.stderr and "Traceback" not in done.stderr, done.stderr
        assert os.listdir(os.path.join(folder, "out")) == ["a.heapsnapshot"]


def test_signals_during_a_snapshot_are_refused_and_a_closed_standard_error_raises_nothing():
    program = """
import os, signal, sys
from heaplab import snapshot
# In the middle of a snapshot, as signals come that follow each other.
types = snapshot._all_types
def all_types():
    snapshot._all_types = types
    os.kill(os.getpid(), signal.SIGUSR2)
    return types()
snapshot._all_types = all_types
os.kill(os.getpid(), signal.SIGUSR2)
print('went on', flush=True)
sys.stderr.close()
os.kill(os.getpid(), signal.SIGUSR2)
print('and on')
"""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "script.py"), "w") as file:
            file.write(program)
        run = [sys.executable, "-m", "heaplab.snapshot", "-o", "a.heapsnapshot", "script.py"]
        done = subprocess.run(run, cwd=folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout == "went on\nand on\n", done
        assert done.stderr.count("no snapshot at this signal: another is being written") == 1, done.stderr
        assert {"a.1.heapsnapshot", "a.heapsnapshot"} < set(os.listdir(folder)), os.listdir(folder)


if __name__ == "__main__":
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            start = time.perf_counter()
            test()
            print(f"{name}: ok ({time.perf_counter() - start:.1f} s)")
