# The workload of traces/python.heaplab: orders come, are changed, and leave a line in an archive. CPython counts references,
# so that under PYTHONMALLOC=malloc a recording says when each object died. It imports nothing: the program is what is recorded.


class Order:
    def __init__(self, number, lines):
        self.number = number
        self.lines = lines
        self.history = []

    def text(self):
        lines = ";".join(f"{name}={price}x{count}" for name, price, count in self.lines)
        return f"order {self.number}: {lines} {sum(price * count for _, price, count in self.lines):.2f}"


def numbers(state=7):
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 33


def main():
    draw = numbers()
    below = lambda limit: next(draw) % limit
    still_open, archive = {}, []
    for number in range(340):
        lines = [(f"item-{below(400)}", below(5000) / 100, 1 + below(9)) for _ in range(1 + below(6))]
        still_open[number] = Order(number, lines)
        changed = still_open.get(number - below(300))
        if changed is not None:
            changed.history.append(("changed", number, "x" * (8 + below(112))))
        if number % 3 == 2:
            archive.append(still_open.pop(list(still_open)[below(min(50, len(still_open)))]).text())
        if len(archive) > 120:
            archive = [line for line in archive if below(10) < 3]


main()
