"""The cell magic, run in an IPython shell. Run with pytest."""

import os
import subprocess
import sys

import pytest

import heaplab

interactive = pytest.importorskip("IPython.core.interactiveshell", reason="%%heaplab needs IPython")


@pytest.fixture
def shell():
    shell = interactive.InteractiveShell.instance()
    shell.reset()
    shell.run_line_magic("load_ext", "heaplab.magic")
    return shell


def test_a_cell_is_recorded_in_a_process_of_its_own(shell, capsys):
    shell.user_ns["kept"] = 1
    result = shell.run_cell("%%heaplab mine\nassert 'kept' not in globals()\nkept = bytearray(3_000_000)\nprint('hello')\n")
    result.raise_error()
    said = capsys.readouterr().out
    assert "hello" in said and "Live memory" in said and "cell.py:2" in said
    mine = shell.user_ns["mine"]
    assert isinstance(mine, heaplab.Recording) and result.result is mine
    assert shell.user_ns["kept"] == 1
    assert mine.check("peak > 3MB && peak < 20MB") == ""


def test_a_cell_that_fails_says_so_with_its_output(shell, capsys):
    result = shell.run_cell("%%heaplab\nraise SystemExit('broken')\n")
    assert isinstance(result.error_in_exec, heaplab.Error) and "ended with 1" in str(result.error_in_exec)
    assert "broken" in capsys.readouterr().out
    assert isinstance(shell.run_cell("%%heaplab two names\npass\n").error_in_exec, heaplab.Error)


@pytest.mark.parametrize("cell", ["pass", "raise SystemExit(3)"])
def test_a_cells_folder_goes_with_the_notebooks_process(tmp_path, cell):
    # A forked process ends earlier and leaves the folder alone.
    program = f"""
import os, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "heaplab.magic")
shell.run_cell("%%heaplab\\n" + {cell!r})
if not os.fork():
    sys.exit()
os.wait()
print(os.listdir({str(tmp_path)!r}))
"""
    ran = subprocess.run([sys.executable, "-c", program], env={**os.environ, "TMPDIR": str(tmp_path)}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "['heaplab-" in ran.stdout.splitlines()[-1]
    assert os.listdir(tmp_path) == []
