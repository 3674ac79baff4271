"""The program `heaplab`: where it is, and how it is run."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
from typing import TYPE_CHECKING, Iterator, Sequence, Union

if TYPE_CHECKING:
    from ._recording import Recording

__all__ = ["Error", "find", "mark", "record", "run"]


class Error(Exception):
    """What heaplab could not do: the sentence says what was expected, and what to do."""


def find() -> str:
    """The path of the program `heaplab`.

    The first of: the file that the environment variable HEAPLAB names, the one that the wheel
    brought, the one on the PATH. `Error` where there is none.
    """
    named = os.environ.get("HEAPLAB")
    if named:
        found = shutil.which(named)
        if found is None:
            raise Error(f"HEAPLAB names {named}, which is no program: correct the variable or remove it")
        return found
    brought = os.path.join(sysconfig.get_path("scripts"), "heaplab")
    found = shutil.which(brought) or shutil.which("heaplab")
    if found is None:
        raise Error(
            f"the program heaplab is neither {brought} nor on the PATH: install a wheel of the "
            "release, or name the program in the environment variable HEAPLAB"
        )
    return found


def call(*arguments: str, codes: Sequence[int] = (0,)) -> subprocess.CompletedProcess:
    """Runs `heaplab ARGUMENTS`. `Error` where its exit code is none of `codes`."""
    done = subprocess.run([find(), "--color=never", *arguments], capture_output=True, text=True)
    if done.returncode not in codes:
        raise _failed(arguments, done.returncode, done.stderr)
    return done


def _failed(arguments, code, said):
    said = said.strip() or f"heaplab {arguments[0]} ended with {code}"
    return Error(said.removeprefix("heaplab: "))


def run(*arguments: str) -> str:
    """The standard output of `heaplab ARGUMENTS`."""
    return call(*arguments).stdout


def lines(*arguments: str) -> Iterator[str]:
    """The lines that `heaplab ARGUMENTS` prints, while it prints them. `Error` behind the last where it fails."""
    with tempfile.TemporaryFile("w+") as said:
        command = [find(), "--color=never", *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as program:
            yield from program.stdout
        if program.returncode:
            said.seek(0)
            raise _failed(arguments, program.returncode, said.read())


def run_json(*arguments: str) -> dict:
    """The JSON that `heaplab ARGUMENTS` prints."""
    text = run(*arguments)
    try:
        return json.loads(text)
    except ValueError as error:
        raise Error(f"heaplab {arguments[0]} printed no JSON ({error}): {find()} may be of another version") from None


def record(
    command: Sequence[Union[str, os.PathLike]],
    output: Union[str, os.PathLike],
    *,
    python: bool = False,
    force: bool = False,
    **options,
) -> Recording:
    """Runs a program in a recorded process of its own, and opens the recording.

    `command` is the program and its arguments. `python` gives stacks the frames of Python, and lets
    Python take each object from malloc. `force` replaces the bundle `output`. `options` go to
    `subprocess.run` (`cwd`, `env`, `stdout`). The program's exit status is `Recording.status`.
    `Error` where nothing was recorded.
    """
    from ._recording import Recording

    if not command:
        raise Error("there is no command to record")
    output = os.path.abspath(output)
    if os.path.lexists(output) and not force:
        raise Error(f"{output} is there already: choose another name, or force=True replaces it")
    before = os.lstat(output).st_ino if os.path.lexists(output) else None
    asked = ["--python"] * python + ["--force"] * force
    done = subprocess.run([find(), "record", "-q", *asked, "-o", output, "--", *map(os.fspath, command)], **options)
    if not os.path.isdir(output) or os.lstat(output).st_ino == before:
        raise Error(f"{command[0]} was not recorded (exit status {done.returncode}): standard error has the reason")
    return Recording(output, status=done.returncode)


def mark(name: str) -> bool:
    """Names this moment in the recording of this process. False where the process is not recorded."""
    try:
        function = ctypes.CDLL(None).heaplab_mark
    except AttributeError:
        return False
    function.argtypes, function.restype = [ctypes.c_char_p], None
    function(name.encode())
    return True
