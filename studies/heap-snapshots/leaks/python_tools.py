"""The leak of cycles.py in a program of a million objects, as four tools for Python tell it: what
each says, and its time and memory beside those of the program alone.

    HEAPLAB=heaplab python leaks/python_tools.py [--objects N] [--reps N]

The Python needs the packages heaplab, memray, guppy3 and objgraph. Every run is a process of its
own, the tools in turns; figures are medians.
"""

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile

import cycles


def alone(folder):
    yield
    yield
    return {"says": "", "holder": ""}


def heaplab(folder):
    import heaplab.snapshot

    files = [os.path.join(folder, moment + ".heapsnapshot") for moment in ("base", "target", "final")]
    for file in files:
        heaplab.snapshot.write(file)
        if file != files[-1]:
            yield
    command = [os.environ.get("HEAPLAB", "heaplab"), "snapshot", "leaks", "--json", *files]
    leak = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["leaks"][0]
    classes = ", ".join(f"{each['count']} {each['name']}" for each in leak["classes"])
    holder = leak["cut"]["step"]["from"]["name"]
    return {"says": f"{classes} retain {leak['retained_bytes']:,} bytes", "holder": f"{leak['cut']['references']} references of {holder}"}


def memray(folder):
    """Traces what Python's allocators give out, from the first moment on."""
    import memray

    file = os.path.join(folder, "out.bin")
    with memray.Tracker(file, trace_python_allocators=True):
        yield
        yield
        gc.collect()
    places = {}
    for record in memray.FileReader(file).get_leaked_allocation_records(merge_threads=True):
        stack = record.stack_trace(max_stacks=1)
        function, path, line = stack[0] if stack else ("?", "?", 0)
        place = f"{function} {os.path.basename(path)}:{line}"
        places[place] = places.get(place, 0) + record.size
    first = sorted(places.items(), key=lambda each: -each[1])[:2]
    return {"says": "; ".join(f"{size:,} bytes of {place}" for place, size in first), "holder": ""}


def guppy3(folder):
    from guppy import hpy

    heapy = hpy()
    heapy.setrelheap()
    yield
    yield
    rows = list(heapy.heap().byclodo.partition.get_rows())
    reached = ", ".join(f"{row.count} {row.name}" for row in rows[:2])
    beyond = [row for row in heapy.heapu().get_rows() if row.name.startswith("cycles.")]
    unreached = ", ".join(f"{row.count} {row.name}" for row in beyond)
    return {"says": f"heap(): {reached}; heapu(), not relative: {unreached}", "holder": ""}


def objgraph(folder):
    import objgraph

    objgraph.growth(limit=None)
    yield
    yield
    gc.collect()
    grown = ", ".join(f"{more} {name}" for name, _, more in objgraph.growth(limit=4))
    chain = objgraph.find_backref_chain(objgraph.by_type("Order")[-1], objgraph.is_proper_module)
    way = " > ".join(type(each).__name__ for each in chain) if len(chain) > 1 else ""
    return {"says": grown, "holder": way}


TOOLS = [alone, heaplab, memray, guppy3, objgraph]


def child(tool, objects):
    """The program with one tool: `tool` goes on to its next `yield` at each moment."""
    held = [{"number": number, "price": number / 7, "name": f"item {number}"} for number in range(objects // 3)]
    with tempfile.TemporaryDirectory() as folder:
        steps = tool(folder)
        answers = []

        def take(moment):
            try:
                next(steps)
            except StopIteration as end:
                answers.append(end.value)

        cycles.run(take)
        print(json.dumps({"held": len(held), **answers[-1]}), flush=True)
        del steps
    os._exit(0)


def run(tool, objects):
    """What a tool answers in a process of its own; its processor seconds and peak memory in MB,
    of all its processes."""
    words = [sys.executable, os.path.abspath(__file__), "--tool", tool, "--objects", str(objects)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    with process.stdout:
        answer = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{tool} failed")
    return json.loads(answer), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=1_000_000)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--tool", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.tool:
        return child(next(tool for tool in TOOLS if tool.__name__ == args.tool), args.objects)
    runs = {tool.__name__: [] for tool in TOOLS}
    for _ in range(args.reps):
        for tool, done in runs.items():
            done.append(run(tool, args.objects))
    middle = {tool: [statistics.median(each[at] for each in done) for at in (1, 2)] for tool, done in runs.items()}
    print("| tool | what leaked | what holds it | CPU, s | memory, MB |\n|---|---|---|---|---|")
    for tool, (seconds, megabytes) in middle.items():
        answer = runs[tool][-1][0]
        if tool != "alone":
            seconds, megabytes = seconds - middle["alone"][0], megabytes - middle["alone"][1]
        plus = "" if tool == "alone" else "+ "
        print(f"| {tool} | {answer['says']} | {answer['holder']} | {plus}{seconds:.2f} | {plus}{megabytes:.0f} |")


if __name__ == "__main__":
    main()
