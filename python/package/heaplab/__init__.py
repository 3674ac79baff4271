"""heaplab: a laboratory for memory managers.

`heaplab.open("app.heaplab")` reads a recording, `heaplab.record([...], "app.heaplab")` makes one,
`heaplab.mark("loaded")` names a moment of a program that is being recorded.
`heaplab.snapshot` writes the heap of this process as a heap snapshot. `heaplab.reporter` says what
this process keeps in memory, for `heaplab about`.
"""

from ._binary import Error, find, mark, record
from ._curve import curve
from ._recording import Recording, open

__all__ = ["Error", "Recording", "curve", "find", "mark", "open", "record"]
