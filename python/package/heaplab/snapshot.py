"""The heap of this process as a heap snapshot (`.heapsnapshot`) that Chrome DevTools and `heaplab snapshot` open.

`write("out.heapsnapshot")` does it; `python -m heaplab.snapshot script.py` does it for a script. What Python can say without being walked
(types and their names, frames and their variables) is gathered here; the walk itself is native, allocates nothing in the heap and runs no Python code.
"""

import argparse
import gc
import importlib.util
import os
import signal
import sys
import sysconfig
import threading
import traceback
import types

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    # Its objects are laid out otherwise, and nothing stands still while one thread walks.
    raise ImportError("heaplab.snapshot does not know free-threaded builds of CPython: use the usual build of the same version")

from . import _native  # noqa: E402

__all__ = ["write", "forget", "main"]

# What the native part knows to read; the numbers are those of `Kind` in src/types.rs.
_KINDS = {
    str: 1, int: 2, bool: 2, float: 3, dict: 4, list: 5, tuple: 6, types.FunctionType: 7, types.CodeType: 8,
    types.BuiltinFunctionType: 10, types.CellType: 11, types.MethodType: 12, types.ModuleType: 13,
}
_TYPE_KIND = 9
_ARRAY_KIND = 14
_TREE_KIND = 15
_CO_OPTIMIZED = 1
# Attributes of built-in types that give what is there, without making anything.
_GETTERS = {
    types.FunctionType: ("__code__", "__globals__", "__defaults__", "__kwdefaults__", "__closure__", "__name__", "__qualname__", "__module__",
                         "__doc__", "__builtins__"),
    types.MethodType: ("__func__", "__self__"),
    types.BuiltinFunctionType: ("__self__", "__module__"),
    types.CellType: ("cell_contents",),
    types.CodeType: ("co_firstlineno",),
    staticmethod: ("__func__",), classmethod: ("__func__",), property: ("fget", "fset", "fdel"),
    types.GeneratorType: ("gi_code", "gi_yieldfrom"),
    types.CoroutineType: ("cr_code", "cr_await"),
}

# Modules whose memory is behind their objects, where nobody asks for it.
_BESIDE = {"polars": "columns of Polars", "torch": "tensors of PyTorch", "sqlite3": "pages of SQLite"}

# CPython 3.12 begins with a few hundred frozen objects; a program that freezes its own (before forking) has many more.
_FROZEN_AT_START_MAX = 1000

try:
    import _interpreters
except ImportError:  # before CPython 3.13
    try:
        import _xxsubinterpreters as _interpreters
    except ImportError:
        _interpreters = None

_ids = _native.Ids()
_frozen = False
_writing = False
# A signal's handler may come in the middle of `write`, in the same thread: a lock that does not let it in would wait for ever.
_lock = threading.RLock()


class _Sample:
    """Where attributes lie is tried on an object whose attributes are known."""

    def __init__(self):
        self.first, self.second, self.third = [1], [2], [3]


def _all_types():
    found, stack = {id(object): object}, [object]
    while stack:
        try:
            subclasses = type.__subclasses__(stack.pop())
        except TypeError:
            continue
        for each in subclasses:
            if id(each) not in found:
                found[id(each)] = each
                stack.append(each)
    return list(found.values())


def _type_name(each):
    try:
        qualname = type.__dict__["__qualname__"].__get__(each)
        module = type.__dict__["__module__"].__get__(each)
    except Exception:  # a type made by hand in C may lack either
        return each.__name__ if isinstance(each.__name__, str) else "type"
    if not isinstance(module, str) or module in ("builtins", ""):
        return str(qualname)
    return f"{module}.{qualname}"


def _array_type(walker):
    """NumPy's type of arrays, if it is there and its arrays can be looked into."""
    numpy = sys.modules.get("numpy")
    array_type = getattr(numpy, "ndarray", None)
    if not isinstance(array_type, type):
        return None
    try:
        sample = numpy.empty((2, 3), dtype=object, order="F")
        items = [object() for _ in range(6)]
        for at, item in enumerate(items):
            sample[divmod(at, 3)] = item
        return array_type if walker.knows_arrays(sample, items) else None
    except Exception:  # a module of that name that is not NumPy
        return None


def _describe_type(walker, each, array_type):
    mro = type.__dict__["__mro__"].__get__(each) or (each,)
    name = _type_name(each)
    sizeof, members = None, {}
    for base in mro:
        namespace = type.__dict__["__dict__"].__get__(base)
        if sizeof is None:
            sizeof = namespace.get("__sizeof__")
        for member, value in namespace.items():
            if type(value) is types.MemberDescriptorType and isinstance(member, str):
                members.setdefault(member, value)
    # Cython's methods are compiled: Arrow's tell the bytes of its buffers.
    is_arrows = type(sizeof).__name__ == "cython_function_or_method" and getattr(sizeof, "__module__", "") == "pyarrow.lib"
    if type(sizeof) is not types.MethodDescriptorType and not is_arrows:
        sizeof = None  # written in Python: not run
    elif sizeof is object.__dict__["__sizeof__"]:
        sizeof = None
    kind = _TYPE_KIND if issubclass(each, type) else _KINDS.get(each, 0)
    if array_type is not None and array_type in mro:
        kind = _ARRAY_KIND
    elif name == "lxml.etree._Document":
        kind = _TREE_KIND
    own = type.__dict__["__dict__"].__get__(each)
    basic, item = type.__dict__["__basicsize__"].__get__(each), type.__dict__["__itemsize__"].__get__(each)
    walker.add_type(each, name, kind, basic, item, sizeof, own, list(members.items()), _GETTERS.get(each, ()))


def _variables(frame):
    """Names and values of a frame's variables; what older Pythons keep of this is emptied again."""
    try:
        variables = frame.f_locals
        items = list(variables.items())
    except Exception:
        return []
    if isinstance(variables, dict) and frame.f_code.co_flags & _CO_OPTIMIZED:
        variables.clear()
    return [(name, value) for name, value in items if isinstance(name, str)]


def _add_frames(walker, skip):
    threads = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():
        depth = 0
        while frame is not None:
            code = frame.f_code
            if code.co_filename != skip:
                where = f"{threads.get(ident, ident)} #{depth} {code.co_name} ({os.path.basename(code.co_filename)}:{frame.f_lineno})"
                module_level = not code.co_flags & _CO_OPTIMIZED
                # At the level of a module variables are those of the module.
                variables = [("globals", frame.f_globals)] if module_level else _variables(frame)
                walker.add_frame(where, code, code.co_filename, frame.f_lineno or 0, variables)
                depth += 1
            frame = frame.f_back
    del frame


def write(path, *, last=False, collect=True, mode=0o600, profile=False):
    """Writes the heap of this process to `path`, which appears when it is complete.

    The garbage collector runs first, unless `collect` is false. Unless `last` is true, the objects of this snapshot are frozen until the next, so that ids
    tell which objects are the same (see the README). A heap has secrets in it: the file is its owner's alone unless `mode` says otherwise (less
    the umask, as for every new file). Returns a dict: nodes, edges, bytes, milliseconds of both phases, and how ids were given. With `profile` these are written to standard error too.
    """
    global _frozen, _writing
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(f"{os.fspath(path)}: it is no regular file, and a snapshot would replace it")
    with _lock:
        _refuse_within_write()
        enabled = gc.isenabled()
        gc.disable()
        _writing = True
        try:
            walker = _native.Walker(_Sample())
            if _frozen:
                walker.young(gc.get_objects())
                gc.unfreeze()
                _frozen = False
            own_freeze = gc.get_freeze_count() > _FROZEN_AT_START_MAX
            if collect:
                gc.collect()
            array_type = _array_type(walker)
            for each in _all_types():
                _describe_type(walker, each, array_type)
            each = array_type = None
            walker.add_root("sys.modules", sys.modules)
            for name, module in list(sys.modules.items()):
                if isinstance(name, str):
                    walker.add_root(name, module)
            name = module = None
            _add_frames(walker, __file__)
            result = walker.write(os.fspath(path), gc.get_objects(), _ids, not last, mode)
            result["ids"] = "address and type" if own_freeze else "frozen"
            result["resident_bytes"] = _resident_bytes()
            result["arrow_bytes"] = _arrow_bytes()
            result["other_interpreters"] = _other_interpreters()
            if profile:
                _say_profile(result)
            if last or own_freeze:
                _ids.keep(not last)
            else:
                gc.freeze()
                _frozen = True
            return result
        finally:
            _writing = False
            if enabled:
                gc.enable()


def _refuse_within_write():
    if _writing:
        raise RuntimeError("another is being written")


def _resident_bytes():
    """What the process has in memory; None where /proc does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _arrow_bytes():
    """What Arrow's own pool of memory has given out, behind objects and beside them."""
    arrow = sys.modules.get("pyarrow")
    try:
        return int(arrow.total_allocated_bytes()) if arrow is not None else 0
    except Exception:
        return 0


def _other_interpreters():
    """Interpreters of the process beside this one, whose objects are not in the file."""
    try:
        return max(len(list(_interpreters.list_all())) - 1, 0)
    except (AttributeError, RuntimeError):
        return 0


def forget():
    """Lets go of what the last snapshot froze: the next one gives new ids."""
    global _frozen
    with _lock:
        _refuse_within_write()
        if _frozen:
            gc.unfreeze()
            _frozen = False
        _ids.keep(False)


def main(arguments=None):
    """`python -m heaplab.snapshot [-o FILE] script.py ...` (or `-m module ...`)."""
    parser = argparse.ArgumentParser(
        prog="python -m heaplab.snapshot",
        description="Runs a script and writes its heap as a snapshot when it ends, and at each SIGUSR2.",
        epilog="Example: python -m heaplab.snapshot -o app.heapsnapshot app.py --port 8000",
    )
    parser.add_argument("-o", "--output", default="out.heapsnapshot", help="the file; snapshots at signals get a number before the extension")
    parser.add_argument("-m", dest="module", action="store_true", help="what follows is a module, as for python -m")
    parser.add_argument("--profile", action="store_true", help="say what both phases took: walking the heap, and writing the file")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    sys.argv = [options.script, *options.arguments]
    count = 0

    def at_signal(_signal, _frame):
        nonlocal count
        count += 1
        stem, extension = os.path.splitext(options.output)
        path = f"{stem}.{count}{extension}"
        # Whatever goes wrong: the program asked for nothing and goes on.
        try:
            _say(write(path, profile=options.profile), path)
        except Exception as error:
            _tell(f"no snapshot at this signal: {error}")

    unwritable = _unwritable(options.output)
    if unwritable:
        sys.exit(f"{parser.prog}: cannot write {options.output}: {unwritable}; the script was not started")

    # A module of our own, because what runpy makes is gone when the script has run.
    module = types.ModuleType("__main__")
    # What cannot begin has no heap worth a snapshot, and an older one stays.
    try:
        code = _code(options, module.__dict__)
    except SyntaxError as error:
        traceback.print_exception(type(error), error, None)
        sys.exit(1)
    except OSError as error:
        sys.exit(f"{parser.prog}: cannot open {options.script}: {error.strerror}")
    except (ImportError, ValueError) as error:
        sys.exit(f"{parser.prog}: cannot load {options.script}: {error}")

    if hasattr(signal, "SIGUSR2"):
        signal.signal(signal.SIGUSR2, at_signal)
    sys.modules["__main__"] = module
    status = 0
    try:
        exec(code, module.__dict__)
    except SystemExit as exit_:
        status = exit_.code
    except BaseException as error:
        # Without the frame of this function.
        traceback.print_exception(type(error), error, error.__traceback__.tb_next)
        status = 1
    try:
        _say(write(options.output, last=True, profile=options.profile), options.output)
    except Exception as error:
        _tell(f"no snapshot at the end: {error}")
        status = status or 1
    sys.exit(status)


def _unwritable(path):
    """Why a snapshot could not be written there; None where it could."""
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        return "it is a folder"
    if os.path.exists(path) and not os.path.isfile(path):
        return "it is no regular file"
    if not os.path.isdir(folder):
        return f"there is no folder {folder}"
    trial = os.path.join(folder, f".{os.path.basename(path)}.{os.getpid()}.trial")
    try:
        os.close(os.open(trial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        os.unlink(trial)
    except OSError as error:
        return error.strerror
    return None


def _code(options, namespace):
    """The code of a script or module, and what its namespace is to know of it."""
    if options.module:
        spec = importlib.util.find_spec(options.script)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(options.script + ".__main__")
        if spec is None:
            raise ImportError("there is no such module")
        sys.argv[0] = spec.origin
        namespace.update(__file__=spec.origin, __spec__=spec, __package__=spec.parent, __loader__=spec.loader)
        sys.path.insert(0, os.getcwd())
        return spec.loader.get_code(spec.name)
    sys.path.insert(0, os.path.dirname(os.path.abspath(options.script)))
    namespace.update(__file__=options.script, __spec__=None, __package__=None)
    with open(options.script, "rb") as file:
        return compile(file.read(), options.script, "exec")


def _tell(text):
    try:
        if sys.stderr is not None:
            print(f"heaplab: {text}", file=sys.stderr)
    except Exception:  # the program closed it, or put something of its own there
        pass


def _say_profile(result):
    phases = f"walked for {result['generation_milliseconds']:.1f} ms, wrote for {result['serialization_milliseconds']:.1f} ms"
    _tell(f"{phases}; {result['strings']} distinct strings, ids by {result['ids']}")


def _mebibytes(count):
    return f"{count / (1 << 20):,.1f} MiB" if count < 10 << 20 else f"{count / (1 << 20):,.0f} MiB"


def _say_part(result):
    """How much of the process is in the file."""
    objects, arrays, trees, arrow = (result[name] for name in ("object_bytes", "array_bytes", "tree_bytes", "arrow_bytes"))
    text = f"{_mebibytes(objects)} in objects"
    if arrays:
        text += f" and {_mebibytes(arrays)} in buffers of NumPy"
    if trees:
        text += f" and {_mebibytes(trees)} in trees of lxml"
    if result["resident_bytes"]:
        text += f", of {_mebibytes(result['resident_bytes'])} that the process has in memory"
        if objects + arrays + trees > result["resident_bytes"]:
            text += " (a buffer counts as a whole, also where it was never written)"
    if arrow:
        text += f"; {_mebibytes(arrow)} are in buffers of Arrow"
    beside = ", ".join(what for module, what in _BESIDE.items() if module in sys.modules)
    _tell(text + f"; what C code holds by itself{f' ({beside})' if beside else ''} is in no file")
    if result["other_interpreters"]:
        _tell(f"{result['other_interpreters']} other interpreters of this process have objects of their own, which are not in the file")


def _say(result, path):
    _say_part(result)
    _tell(f"{path}: {result['nodes']} objects, {result['edges']} references, {result['bytes']} bytes in {result['milliseconds']:.0f} ms")
    if not result["attributes_named"]:
        version = ".".join(map(str, sys.version_info[:2]))
        _tell(f"where CPython {version} keeps attributes is not known: references of some objects have numbers for names")


if __name__ == "__main__":
    # Run as the module that others import, so that both share what they know of ids.
    from heaplab.snapshot import main as _main

    _main()
