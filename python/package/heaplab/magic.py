"""`%%heaplab` in IPython and notebooks: what the code of a cell allocates.

`%load_ext heaplab.magic`, then `%%heaplab [NAME] [--no-page]` as a cell's first line. **The cell
runs in a process of its own**, which is recorded: it sees no variable of the notebook and leaves
none behind; imports belong into the cell. The report is shown, and its page in a notebook; the
recording is the cell's value, and the variable NAME (`recording` where none is named). It lies in a
temporary folder until the notebook's process ends.
"""

import atexit
import html
import os
import shutil
import sys
import tempfile

from . import _binary


def load_ipython_extension(shell):
    """Called by `%load_ext heaplab.magic`."""
    shell.register_magic_function(lambda line, cell: _heaplab(shell, line, cell), "cell", "heaplab")


def _heaplab(shell, line, cell):
    words = line.split()
    page = "--no-page" not in words
    names = [word for word in words if word != "--no-page"]
    if len(names) > 1 or names and not names[0].isidentifier():
        raise _binary.Error(f"%%heaplab {line}: write %%heaplab, the name of a variable, and --no-page where the text is enough")
    folder = tempfile.mkdtemp(prefix="heaplab-")
    atexit.register(_remove, folder, os.getpid())
    script = os.path.join(folder, "cell.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write(cell)
    said = os.path.join(folder, "said")
    with open(said, "w+", encoding="utf-8", errors="replace") as file:
        recording = _binary.record([sys.executable, script], os.path.join(folder, "cell.heaplab"), python=True, stdout=file, stderr=file)
        file.seek(0)
        print(file.read(), end="")
    if recording.status != 0:
        raise _binary.Error(f"the cell's process ended with {recording.status}: its output is above, its recording in {recording.path}")
    if page and shell.has_trait("kernel"):
        from IPython.display import HTML, display

        display(HTML(f'<iframe srcdoc="{html.escape(recording.html())}" style="width:100%;height:600px;border:0"></iframe>'))
    else:
        print(recording.report("--top", "3"))
    shell.user_ns[names[0] if names else "recording"] = recording
    return recording


def _remove(folder, owner):
    # A forked process runs this, too.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
