"""Cycles that C code holds: callbacks registered with atexit keep the objects they are bound to.

    python leaks/cycles.py FOLDER      (base, target and final.heapsnapshot in that folder)
"""

import atexit
import json
import os
import sys


class Order:
    def __init__(self, number, worker):
        self.number, self.worker, self.lines = number, worker, [float(number)] * 500


class Worker:
    """A cycle: the collector would free it, if nothing held it."""

    def __init__(self, number):
        self.order = Order(number, self)
        atexit.register(self.close)

    def close(self):
        self.order = None


def act():
    return [Worker(number) for number in range(60)]


def run(take):
    """Acts once before the first moment, so that caches are full by then."""
    act()
    take("base")
    workers = act()
    take("target")
    del workers
    take("final")


if __name__ == "__main__":
    import heaplab.snapshot

    run(lambda moment: heaplab.snapshot.write(os.path.join(sys.argv[1], moment + ".heapsnapshot")))
    print(json.dumps({"names": [], "class": "method"}))
    os._exit(0)
