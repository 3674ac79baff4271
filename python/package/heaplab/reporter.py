"""Memory reporters: what a Python program says of its own memory, for `heaplab about PID` (docs/reporters.md).

    from heaplab import reporter

    def report(sink):
        sink.objects("explicit/store/pages", pages, description="Pages read before.")
        sink.report("cached-pages", len(pages), units="count")

    reporter.register(report)
    reporter.on_pressure(pages.clear)
    reporter.serve()

Reporters run on the server's thread while the program runs. A reporter takes the locks that guard its data, preferably with a time limit, and says
`sink.skip(why)` where it cannot have them. CPython's own arenas (pymalloc) are always reported. Nothing here needs the compiled part of the package.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import operator
import os
import re
import socket
import stat
import struct
import sys
import threading
import time
import types
import unicodedata
from typing import Callable

from . import _binary
from ._binary import Error

__all__ = ["Handle", "Sink", "collect", "mark", "on_pressure", "register", "serve"]

#: Numbers of Firefox's nsIMemoryReporter.
_KINDS = {"non-heap": 0, "heap": 1, "other": 2}
_UNITS = {"bytes": 0, "count": 1, "cumulative": 2, "percentage": 3}
_REPORTS_MAX = 1 << 20
_TEXT_BYTES_MAX = 16 << 10
_QUESTION_BYTES = 204
#: Paths that heaplab itself reports.
_OWN_PATHS = ("heap-allocated", "resident", "resident-unique", "vsize", "explicit/heap-unclassified")
#: Marks that are kept, the reports of all marks together, and bytes of a mark's name.
_MARKS_MAX = 16
_MARKS_REPORTS_MAX = 1 << 18
_MARK_BYTES_MAX = 200
#: Seconds for an asker to send its question and to read the answer.
_PATIENCE = 10
#: pymalloc serves requests up to this size; malloc serves the others.
_SMALL_BYTES = 512
#: Parts of the program rather than of its data.
_CODE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.CodeType, types.FrameType,
         types.GetSetDescriptorType, types.MemberDescriptorType, types.MethodDescriptorType, types.WrapperDescriptorType)  # fmt: skip


class Handle:
    """A registered reporter or callback."""

    def __init__(self, all_, callback):
        self._all, self._callback, self._runs = all_, callback, threading.RLock()
        all_.append(self)

    def unregister(self) -> None:
        """Removes it. Returns when it no longer runs, unless the reporter itself calls."""
        if self in self._all:
            self._all.remove(self)
        with self._runs:
            self._callback = None

    def _run(self, *arguments):
        with self._runs:
            if self._callback is not None:
                self._callback(*arguments)


_reporters: list[Handle] = []
_callbacks: list[Handle] = []


def register(reporter: Callable[[Sink], object]) -> Handle:
    """Adds a reporter, which may report any number of paths."""
    _recorder.watch_marks()
    return Handle(_reporters, reporter)


def on_pressure(callback: Callable[[], object]) -> Handle:
    """Adds a callback that drops caches: `heaplab pressure PID`."""
    return Handle(_callbacks, callback)


class Sink:
    """Takes one reporter's reports."""

    def __init__(self, reports, errors, pymalloc):
        self._reports, self._errors, self._pymalloc, self._met = reports, errors, pymalloc, set()

    def report(self, path: str, amount: int, description: str = "", *, kind: str = "other", units: str = "bytes") -> None:
        """Reports an amount. `kind`: "heap" (malloc's blocks), "non-heap" (the program's own mappings, pymalloc's arenas), "other". `units`: "bytes",
        "count", "cumulative", "percentage" (hundredths of a percent). Below `explicit/` stand bytes of kind heap or non-heap, each byte once."""
        path, description = str(path), str(description)
        wrong = None
        try:
            amount = operator.index(amount)
        except TypeError:
            wrong = "its amount is no whole number"
        else:
            if not -(1 << 63) <= amount < 1 << 63:
                wrong = "its amount has more than 64 bits"
        if kind not in _KINDS or units not in _UNITS:
            wrong = f"expected a kind of {', '.join(_KINDS)} and units of {', '.join(_UNITS)}"
        elif not path:
            wrong = "its path is empty"
        elif path in _OWN_PATHS:
            wrong = "heaplab itself reports this path"
        elif max(len(_utf8(path)), len(_utf8(description))) > _TEXT_BYTES_MAX:
            wrong = "its path or description is longer than 16 KiB"
        elif (path == "explicit" or path.startswith("explicit/")) and (kind == "other" or units != "bytes"):
            wrong = "below explicit/ only bytes of kind heap or non-heap are added up"
        elif len(self._reports) >= _REPORTS_MAX:
            wrong = f"there are {_REPORTS_MAX} reports before it"
        if wrong:
            self.skip(f'the report "{path[:80]}" of {amount} is left out: {wrong}')
        else:
            self._add(path, amount, description, kind=kind, units=units)

    def _add(self, path, amount, description, *, kind="other", units="bytes"):
        """Adds a report as it is: heaplab's own are beyond the limit and the refused paths."""
        self._reports.append({"path": path, "kind": _KINDS[kind], "units": _UNITS[units], "amount": amount, "description": description})

    def bytes(self, path: str, amount: int, description: str = "", *, kind: str = "heap") -> None:
        """Reports bytes that the program has counted itself."""
        self.report(path, amount, description, kind=kind)

    def objects(self, path: str, *roots: object, description: str = "") -> int:
        """Measures `roots` and all objects that they lead to, and reports `path/malloc` and `path/pymalloc`. Returns the sum.

        Modules, types, functions and frames are left out; an object that this reporter has met before does not count again. Sizes are those of
        `sys.getsizeof`; malloc's rounding stays in heap-unclassified. Under `heaplab record --dmd` the blocks count as reported.
        """
        malloc = pymalloc = 0
        is_explicit = path.startswith("explicit/")
        for each in self._reachable(roots):
            for size, address in _blocks(each):
                if size <= _SMALL_BYTES and self._pymalloc.is_used:
                    pymalloc += size
                else:
                    malloc += size
                    if is_explicit:
                        _recorder.mark(address)
        if malloc or not pymalloc:
            self.report(f"{path}/malloc", malloc, description, kind="heap")
        if pymalloc:
            self.report(f"{path}/pymalloc", pymalloc, description, kind="non-heap")
        if is_explicit:
            self._pymalloc.named += pymalloc
        return malloc + pymalloc

    def skip(self, why: str) -> None:
        """Says why nothing is reported."""
        self._errors.append(str(why))

    def _reachable(self, roots):
        waiting = list(roots)
        while waiting:
            each = waiting.pop()
            if id(each) not in self._met and not isinstance(each, _CODE) and not _is_shared(each):
                self._met.add(id(each))
                yield each
                waiting.extend(gc.get_referents(each))


def _is_shared(each):
    """Whether the interpreter has one such object for everybody."""
    kind = type(each)
    if kind is int:
        return -5 <= each <= 256
    return each is None or kind is bool or (kind in (str, bytes) and len(each) <= 1) or (kind in (tuple, frozenset) and not each)


def _blocks(each):
    """Size and address of each block of an object: its own, and the one behind it with its items. An address of None is not known."""
    size, kind = sys.getsizeof(each), type(each)
    has_collector_header = kind.__flags__ & 1 << 14
    own = kind.__basicsize__ + (16 if has_collector_header else 0)
    if size <= own or kind.__itemsize__ or kind is str:
        return [(size, id(each))]
    return [(own, id(each)), (size - own, _items(each))]


def _items(each):
    """Where the items of a container begin. CPython 3.8 to 3.13 keeps the pointer at a fixed place in the object; nothing is read behind it."""
    at = {list: 24, dict: 32, set: 40}.get(type(each))
    if at is not None and sys.implementation.name == "cpython":
        is_shared = type(each) is dict and ctypes.c_void_p.from_address(id(each) + 40).value
        return None if is_shared else ctypes.c_void_p.from_address(id(each) + at).value
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(each))
    except (TypeError, ValueError, BufferError):
        return None


class _Pymalloc:
    """CPython's allocator for small objects, by its own account."""

    _FIELDS = {
        "allocated": r"^# bytes in allocated blocks +=",
        "free": r"^# bytes in available blocks +=",
        "pools": r"^\d+ unused pools \* \d+ bytes +=",
        "headers": r"^# bytes lost to pool headers +=",
        "rounding": r"^# bytes lost to quantization +=",
        "alignment": r"^# bytes lost to arena alignment +=",
    }

    def __init__(self):
        text = _debug_malloc_stats()
        found = {name: re.search(field + r" *([\d,]+)$", text, re.MULTILINE) for name, field in self._FIELDS.items()}
        #: Whether it is in use (PYTHONMALLOC=malloc is without it), and known.
        self.is_used = all(found.values())
        self._bytes = {name: int(match[1].replace(",", "")) for name, match in found.items()} if self.is_used else {}
        #: Bytes in its blocks that reporters have named.
        self.named = 0

    def report(self, sink):
        if not self.is_used:
            return
        of = self._bytes
        for name, amount, description in (
            ("unclassified", of["allocated"] - self.named, "Small objects that no reporter names."),
            ("free-blocks", of["free"], "Room in pools of one size that have live objects."),
            ("free-pools", of["pools"], "Pools without live objects, in arenas that have some."),
            ("overhead", of["headers"] + of["rounding"] + of["alignment"], "Headers of pools and ends of pools and arenas."),
        ):
            sink._add(f"explicit/python/pymalloc/{name}", amount, description, kind="non-heap")


def _debug_malloc_stats():
    """What `sys._debugmallocstats()` prints, as text; empty where this Python has nothing of the kind."""
    try:
        write = ctypes.pythonapi._PyObject_DebugMallocStats
    except AttributeError:
        return ""
    text, length = ctypes.c_void_p(), ctypes.c_size_t()
    _libc.open_memstream.restype = ctypes.c_void_p
    stream = _libc.open_memstream(ctypes.byref(text), ctypes.byref(length))
    if not stream:
        return ""
    write.argtypes, write.restype = [ctypes.c_void_p], ctypes.c_int
    write(stream)
    _libc.fclose(ctypes.c_void_p(stream))
    try:
        return ctypes.string_at(text.value, length.value).decode("ascii", "replace")
    finally:
        _libc.free(text)


_libc = ctypes.CDLL(None)


class _Recorder:
    """The recorder's functions for reporters (crates/preload/c/reports.c), where `heaplab record` has preloaded them."""

    _REPORTED, _INSIDE = 1, 2

    def __init__(self):
        self.wants_reports = False
        self._watches, self._thread = False, threading.local()
        try:
            self._block, self._pass, self._on_mark = _libc.heaplab_report_block, _libc.heaplab_report_pass, _libc.heaplab_report_on_mark
        except AttributeError:
            self._block = None
            return
        self._block.argtypes, self._block.restype = [ctypes.c_void_p, ctypes.c_uint32], ctypes.c_size_t
        self._pass.argtypes, self._pass.restype = [ctypes.c_uint32], None
        self._on_mark.restype = ctypes.c_uint32

    def watch_marks(self):
        """Under `record --dmd`: asks the reporters at each mark, and before the interpreter ends."""
        if self._block is None or self._watches:
            return
        self._watches = True
        # Kept: the recorder calls it until the process ends.
        self._ask = ctypes.CFUNCTYPE(None)(self._asked)
        if self._on_mark(self._ask):
            self.wants_reports = True
            atexit.register(collect)

    def _asked(self):
        if not getattr(self._thread, "is_in_pass", False):
            self._thread.answer = collect()

    def mark_and_collect(self, name):
        """Sets the mark in the recording, if there is one. The reports: under `record --dmd` those that the recorder has just asked for."""
        self._thread.answer = None
        _binary.mark(name)
        answer, self._thread.answer = self._thread.answer, None
        return answer if answer is not None else collect()

    def mark(self, address):
        if self.wants_reports and address is not None:
            self._block(address, self._REPORTED | self._INSIDE)

    def __enter__(self):
        if self.wants_reports:
            self._thread.is_in_pass = True
            self._pass(1)

    def __exit__(self, *_):
        if self.wants_reports:
            self._pass(0)
            self._thread.is_in_pass = False


_recorder = _Recorder()


def collect() -> tuple[list[dict], list[str]]:
    """Asks all reporters on this thread, as `heaplab about` does on the server's: the reports, and what went wrong in words."""
    reports: list[dict] = []
    errors: list[str] = []
    pymalloc = _Pymalloc()
    with _recorder:
        for each in list(_reporters):
            try:
                each._run(Sink(reports, errors, pymalloc))
            except Exception as error:
                errors.append(f"a reporter raised {type(error).__name__}: {error}")
    sink = Sink(reports, errors, pymalloc)
    pymalloc.report(sink)
    _report_system(sink)
    return reports, errors


#: Name, time and reports of each mark, oldest first.
_marks: list[tuple[str, float, tuple[list[dict], list[str]]]] = []
_marks_lock = threading.Lock()


def mark(name: str) -> None:
    """Names this moment and keeps what the reporters say now: `heaplab about PID --at NAME`. The last 16 marks are kept; a name that is set again
    stands for the later moment. Under `heaplab record` the mark is in the recording."""
    name = "".join(" " if unicodedata.category(letter) == "Cc" else letter for letter in _utf8(name)[:_MARK_BYTES_MAX].decode("utf-8", "ignore"))
    collected = _recorder.mark_and_collect(name)
    with _marks_lock:
        _marks[:] = [kept for kept in _marks if kept[0] != name]
        _marks.append((name, time.monotonic(), collected))
        while len(_marks) > 1 and (len(_marks) > _MARKS_MAX or sum(len(reports) for _, _, (reports, _) in _marks) > _MARKS_REPORTS_MAX):
            del _marks[0]


def _report_system(sink):
    heap = _heap()
    if heap is not None:
        allocated, committed = heap
        sink._add("heap-allocated", allocated, "Memory that the allocator has given to the program and not got back.")
        if committed is not None:
            sink._add("heap-committed", committed, "Memory that the allocator has from the system, given out or free.")
    with open("/proc/self/statm", encoding="ascii") as file:
        size, resident = (int(pages) * os.sysconf("SC_PAGE_SIZE") for pages in file.read().split()[:2])
    sink._add("resident", resident, "Memory of the process that is in RAM, shared pages included.")
    try:
        with open("/proc/self/smaps_rollup", encoding="ascii") as file:
            fields = [line.split() for line in file]
        private = sum(int(field[1]) << 10 for field in fields if field[0] in ("Private_Clean:", "Private_Dirty:"))
        sink._add("resident-unique", private, "Memory in RAM that no other process shares.")
    except OSError:
        pass  # a kernel before 4.14
    sink._add("vsize", size, "Address space that the process has mapped.")


class _Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]


class _DlInfo(ctypes.Structure):
    _fields_ = [("fname", ctypes.c_char_p), ("fbase", ctypes.c_void_p), ("sname", ctypes.c_char_p), ("saddr", ctypes.c_void_p)]


def _allocators_own(name):
    """A function of the object that holds the process's malloc: another allocator's figures do not cover its blocks."""

    def object_of(address):
        info = _DlInfo()
        return info.fbase if _libc.dladdr(ctypes.c_void_p(address), ctypes.byref(info)) else None

    def address(function):
        return ctypes.cast(function, ctypes.c_void_p).value

    try:
        function = getattr(_libc, name)
        malloc = address(_libc.malloc)
        # Under heaplab record malloc is the recorder's, which knows the allocator behind it.
        behind = getattr(_libc, "heaplab_report_allocator", None)
        if behind is not None:
            behind.restype = ctypes.c_void_p
            malloc = behind() or malloc
        return function if object_of(address(function)) == object_of(malloc) else None
    except AttributeError:
        return None


def _heap():
    """Bytes allocated and, where the allocator tells, bytes committed."""
    mallctl = _allocators_own("mallctl")
    if mallctl is not None:
        epoch = ctypes.c_uint64(1)
        mallctl(b"epoch", None, None, ctypes.byref(epoch), ctypes.c_size_t(8))

        def ask(name):
            value, length = ctypes.c_size_t(), ctypes.c_size_t(ctypes.sizeof(ctypes.c_size_t))
            return None if mallctl(name, ctypes.byref(value), ctypes.byref(length), None, ctypes.c_size_t(0)) else value.value

        allocated = ask(b"stats.allocated")
        return None if allocated is None else (allocated, ask(b"stats.active"))
    mallinfo2 = _allocators_own("mallinfo2")
    if mallinfo2 is None:
        return None
    mallinfo2.restype = _Mallinfo2
    heap = mallinfo2()
    return heap.uordblks + heap.hblkhd, heap.arena + heap.hblkhd


def _relieve():
    """Runs the callbacks for memory pressure; their number, and what went wrong."""
    callbacks, errors = list(_callbacks), []
    for each in callbacks:
        try:
            each._run()
        except Exception as error:
            errors.append(f"a pressure callback raised {type(error).__name__}: {error}")
    gc.collect()
    trim = _allocators_own("malloc_trim")
    if trim is not None:
        trim(ctypes.c_size_t(0))
    return len(callbacks), errors


class _Server:
    def __init__(self, listener, path):
        self.listener, self.path, self.pid = listener, path, os.getpid()


_server: _Server | None = None


def serve() -> None:
    """Starts the thread that answers `heaplab about PID` until the program ends. A forked child has none until it calls this."""
    global _server
    if _server is not None:
        raise Error("this process has a server already")
    folder = _own_folder()
    _remove_stale(folder)
    path = os.path.join(folder, f"reporters-{os.getpid()}")
    # Left by an earlier process with this number.
    if os.path.lexists(path):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen(8)
    _server = _Server(listener, path)
    threading.Thread(target=_answer_all, args=(_server,), name="heaplab-about", daemon=True).start()


def _own_folder():
    """The folder of this user's sockets, which only this user may enter."""
    user = os.geteuid()
    runtime = f"/run/user/{user}"
    try:
        found = os.lstat(runtime)
        is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == user
    except OSError:
        is_own = False
    folder = f"{runtime}/heaplab" if is_own else f"/tmp/heaplab-{user}"
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user or found.st_mode & 0o077:
        raise Error(f"{folder} is no folder that user {user} alone may enter")
    return folder


def _remove_stale(folder):
    """Removes sockets of processes that were killed."""
    for name in os.listdir(folder):
        pid = name.removeprefix("reporters-")
        if pid == name or not pid.isdigit() or os.path.exists(f"/proc/{pid}"):
            continue
        path = os.path.join(folder, name)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asker:
            try:
                asker.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)
            except OSError:
                pass


def _answer_all(server):
    while server is _server:
        try:
            connection, _ = server.listener.accept()
        except OSError:
            return
        with connection:
            try:
                connection.settimeout(_PATIENCE)
                connection.sendall(_answer(connection))
            except OSError:
                pass  # only this asker is affected


def _answer(connection):
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    if user != os.geteuid():
        return _refusal("another user's process answers nobody else")
    question = b""
    while b"\n" not in question and len(question) < _QUESTION_BYTES:
        more = connection.recv(_QUESTION_BYTES - len(question))
        if not more:
            break
        question += more
    question = question.split(b"\n")[0]
    said: dict = {"errors": []}
    if question.startswith(b"at "):
        name = question[3:].decode("utf-8", "replace")
        collected = next((collected for mark, _, collected in _marks if mark == name), None)
        if collected is None:
            return _refusal(_no_mark(name))
    elif question in (b"report", b"pressure"):
        if question == b"pressure":
            said["callbacks"], said["errors"] = _relieve()
        collected = collect()
    else:
        return _refusal("this question is not known: report, pressure, at")
    reports, errors = collected
    said["errors"] += errors
    if _marks:
        now = time.monotonic()
        said["marks"] = [{"name": name, "seconds_ago": round(now - then, 3)} for name, then, _ in _marks]
    with open("/proc/self/comm", encoding="utf-8", errors="replace") as file:
        process = f"{file.read().strip() or 'program'} (pid {os.getpid()})"
    answer = {"version": 1, "hasMozMallocUsableSize": False, "reports": [{"process": process, **each} for each in reports], "heaplab": said}
    return _utf8(json.dumps(answer, ensure_ascii=False)) + b"\n"


def _refusal(why):
    return _utf8(json.dumps({"refused": why}, ensure_ascii=False)) + b"\n"


def _no_mark(name):
    if not _marks:
        return f"it has set no mark, so none is called {name} (heaplab.reporter.mark)"
    return f"no mark is called {name}; it has {', '.join(mark for mark, _, _ in _marks)}"


def _utf8(text):
    return text.encode("utf-8", "replace")


@atexit.register
def _remove_socket():
    global _server
    server, _server = _server, None
    if server is not None and server.pid == os.getpid():
        try:
            os.unlink(server.path)
        except OSError:
            pass


def _in_child():
    """A forked child keeps the reporters. Their locks may be held by threads that it does not have, and the listener is its parent's."""
    global _server
    if _server is not None:
        _server.listener.close()
        _server = None
    for each in (*_reporters, *_callbacks):
        each._runs = threading.RLock()


os.register_at_fork(after_in_child=_in_child)
