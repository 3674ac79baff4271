"""A program that says what it keeps in memory: texts, an index of their words, and a journal that two reporters name.

`python python/examples/reporters.py`, then `heaplab about PID` in another terminal; `heaplab pressure PID` empties the index. It ends when its
standard input does. `heaplab record --python --dmd -o app.heaplab -- python python/examples/reporters.py` records what no reporter names.
"""

import os
import sys

from heaplab import reporter


def texts():
    return {number: f"text {number} " + "of some words " * 40 for number in range(400)}


def index_of(store):
    return {word: [number for number in store if word in store[number]] for word in ("text", "words", "some", "399")}


store = texts()
index = index_of(store)
journal = [bytearray(2_000) for _ in range(100)]
# What the author forgot to report.
forgotten = [bytes([number]) * 100_000 for number in range(8)]


def report(sink):
    sink.objects("explicit/store/texts", store, description="Texts by number.")
    sink.objects("explicit/store/index", index, description="Numbers of the texts with a word.")
    sink.objects("explicit/store/journal", journal, description="What was done.")
    sink.report("texts", len(store), "Texts in the store.", units="count")


def report_journal(sink):
    """A second author did not know of the first."""
    sink.objects("explicit/log/lines", journal, description="Lines of the log.")


reporter.register(report)
reporter.register(report_journal)
reporter.on_pressure(index.clear)
reporter.serve()
reporter.mark("loaded")
print(f"heaplab about {os.getpid()}", flush=True)
sys.stdin.read()
print(f"{len(forgotten)} blocks were forgotten")
