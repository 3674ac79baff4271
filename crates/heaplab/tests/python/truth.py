"""Allocates blocks of sizes that nothing else asks for, from everywhere, and prints for each the
frames that Python itself names: {size: [[function, line, file], ...]}, the innermost first."""
import asyncio, contextlib, ctypes, functools, json, os, sys, threading, weakref

kept, said, size = [], {}, 1_000_003


def frames(frame):
    stack = []
    while frame:
        code = frame.f_code
        stack.append([getattr(code, "co_qualname", code.co_name), frame.f_lineno, code.co_filename])
        frame = frame.f_back
    return stack


def here():
    global size
    size += 32
    said[size] = frames(sys._getframe()); kept.append(bytearray(size))


class Meta(type):
    def __call__(cls, *arguments):
        here()
        return super().__call__(*arguments)


class Größe(metaclass=Meta):
    here()

    def __init__(self):
        here()

    @property
    def π(self):
        return here()

    def __getattr__(self, name):
        return here()

    def __lt__(self, other):
        here()
        return True

    def __del__(self):
        here()

    @staticmethod
    def later():
        return lambda: here()


def generator():
    here()
    yield 1
    here()
    yield from (here() for _ in range(2))


async def sleeper(depth):
    here()
    await asyncio.sleep(0)
    here()
    if depth:
        await sleeper(depth - 1)


async def source():
    for _ in range(2):
        here()
        yield 1


async def tasks():
    await asyncio.gather(sleeper(2), sleeper(0))
    async for _ in source():
        here()


@contextlib.contextmanager
def manager():
    here()
    yield
    here()


def deep(depth):
    return deep(depth - 1) if depth else here()


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
def compare(a, b):
    here()
    return 0


def failing():
    try:
        here()
        {}["missing"]
    except KeyError:
        here()
    finally:
        here()


def made_again():
    # code objects that die and whose addresses are used again
    for number in range(20):
        exec(compile("\n" * (number % 3) + f"def made_{number % 2}():\n here()\nmade_{number % 2}()", f"<made {number}>", "exec"))
    for number in range(20):
        eval(f"here()")


def traced(frame, event, argument):
    return None


def main():
    here()
    one = Größe()
    one.π
    one.missing
    one.later()()
    sorted([one, Größe()])
    sorted([2, 1], key=lambda number: here() or number)
    [here() for _ in range(2)]
    list(map(lambda number: here(), [1, 2]))
    list(generator())
    functools.reduce(lambda a, b: here(), [1, 2, 3])
    functools.partial(deep, 3)()
    deep(100)
    asyncio.run(tasks())
    with manager():
        here()
    failing()
    array = (ctypes.c_int * 3)(3, 2, 1)
    ctypes.CDLL(None).qsort(array, 3, 4, compare)
    made_again()
    one.self = one
    del one
    kept.append(weakref.ref(Größe(), lambda _: here()))
    threads = [threading.Thread(target=deep, args=(5,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setprofile(traced)
    here()
    deep(2)
    sys.setprofile(None)
    sys.settrace(traced)
    deep(2)
    sys.settrace(None)


main()
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    deep(4)
json.dump({"size": said, "forked": not child}, sys.stdout)
print(flush=True)
os._exit(0)
