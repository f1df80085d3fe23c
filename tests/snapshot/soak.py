# Runs in a sandbox: allocates, frees, grows, shrinks, discards and changes memory of every kind, and knows at any
# time what each piece has to hold. `seed` is defined before; it decides on every step.
import gc
import hashlib
import mmap
import multiprocessing
import os
import random
import threading
import time
import traceback
import warnings

import numpy as np
import pandas as pd

warnings.filterwarnings("ignore", message=".*multi-threaded.*fork")
PAGE = mmap.PAGESIZE


def content(thing):
    if isinstance(thing, pd.DataFrame):
        return thing.to_numpy().tobytes()
    return thing.tobytes() if isinstance(thing, np.ndarray) else bytes(thing)


def size_of(thing):
    return len(thing) * 16 if isinstance(thing, pd.DataFrame) else memoryview(thing).nbytes


def is_zero(data):
    return bytes(data) == bytes(len(data))


def seal(thing):
    return hashlib.blake2b(content(thing)).digest()


def check(entry):
    assert seal(entry[0]) == entry[1], f"{type(entry[0])} of {len(entry[0])} changed by itself"


class Holder:
    def __init__(self, seed, most_bytes):
        self.random, self.most_bytes = random.Random(seed), most_bytes
        self.held, self.steps = [], 0

    def size(self):
        # Of every order: from what lies in the arenas to what has a mapping of its own.
        exponent_max = 23.5 if self.most_bytes > 64 << 20 else 21
        return int(2 ** self.random.uniform(4, exponent_max))

    def allocate(self):
        n, kind = self.size(), self.random.choice(["bytes", "bytearray", "zeros", "array", "frame", "joined", "region"])
        if kind == "bytes":
            thing = self.random.randbytes(n)
        elif kind == "bytearray":
            thing = bytearray(self.random.randbytes(n))
        elif kind == "zeros":
            thing = np.zeros(n // 8 + 1)
            assert not thing.any(), "calloc gave memory that was not zero"
            thing[::512] = 1.5
        elif kind == "array":
            thing = np.frombuffer(self.random.randbytes(n // 8 * 8 + 8), dtype=np.int64).copy()
        elif kind == "frame":
            thing = pd.DataFrame({"a": np.arange(n // 16 + 1), "b": np.arange(n // 16 + 1) * 2})
        elif kind == "joined":
            thing = bytearray(b"".join(self.random.randbytes(100) for _ in range(n // 10_000 + 1)))
        else:
            thing = mmap.mmap(-1, n, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            assert is_zero(thing[:]), "a new mapping was not zero"
            thing[: n // 2] = self.random.randbytes(n // 2)
        self.held.append([thing, seal(thing)])

    def free(self):
        if self.held:
            self.held.pop(self.random.randrange(len(self.held)))
        if self.random.random() < 0.2:
            gc.collect()

    def grow(self):
        entry = self.random.choice(self.held)
        thing, more = entry[0], self.size()
        check(entry)
        if isinstance(thing, bytes):
            entry[0] = thing + bytes(more)
            assert entry[0][: len(thing)] == thing, "bytes changed as they grew"
        elif isinstance(thing, bytearray):
            before = bytes(thing)
            thing.extend(bytes(more))
            assert thing[: len(before)] == before and is_zero(thing[len(before) :]), "a bytearray changed as it grew"
        elif isinstance(thing, np.ndarray):
            before = thing.copy()
            thing.resize(len(before) + more // 8, refcheck=False)
            assert (thing[: len(before)].view(np.int64) == before.view(np.int64)).all(), "an array changed as it grew"
            assert not thing[len(before) :].any(), "an array did not grow by zeros"
        elif isinstance(thing, mmap.mmap):
            before = thing[:]
            thing.resize(len(before) + more)
            assert thing[: len(before)] == before, "a mapping changed as it grew"
            # Up to the end of its last page it has what it had there before it was shrunk.
            fresh = -(-len(before) // PAGE) * PAGE
            assert is_zero(thing[fresh:]), "a mapping did not grow by zeros"
        else:
            other = pd.DataFrame({"a": np.arange(more // 16), "b": np.arange(more // 16)})
            entry[0] = pd.concat([thing, other, thing.tail(100)], ignore_index=True)
            assert (entry[0]["a"].to_numpy()[: len(thing)] == thing["a"].to_numpy()).all(), "a frame changed as it grew"
        entry[1] = seal(entry[0])

    def shrink(self):
        entry = self.random.choice(self.held)
        thing = entry[0]
        if isinstance(thing, bytearray):
            del thing[len(thing) // 2 :]
        elif isinstance(thing, np.ndarray):
            thing.resize(len(thing) // 2 + 1, refcheck=False)
        elif isinstance(thing, mmap.mmap):
            thing.resize(len(thing) // 2 + 1)
        entry[1] = seal(thing)

    def change(self):
        entry = self.random.choice(self.held)
        thing = entry[0]
        if isinstance(thing, bytearray | mmap.mmap) and len(thing) > 0:
            thing[self.random.randrange(len(thing))] ^= 255
        elif isinstance(thing, np.ndarray):
            thing[self.random.randrange(len(thing)) :: 1000] += 1
        elif isinstance(thing, pd.DataFrame):
            thing.loc[:, "b"] += 1
        entry[1] = seal(thing)

    def discard(self):
        regions = [entry for entry in self.held if isinstance(entry[0], mmap.mmap) and len(entry[0]) >= PAGE]
        if not regions:
            return
        entry = self.random.choice(regions)
        thing = entry[0]
        check(entry)
        pages = len(thing) // PAGE
        first = self.random.randrange(pages)
        start, length = first * PAGE, self.random.randint(1, pages - first) * PAGE
        before = thing[:]
        if self.random.random() < 0.5:
            thing.madvise(mmap.MADV_DONTNEED, start, length)
            assert is_zero(thing[start : start + length]), "discarded pages came back with bytes"
        else:
            thing.madvise(mmap.MADV_FREE, start, length)
            for at in range(start, start + length, PAGE):
                assert thing[at : at + PAGE] in (before[at : at + PAGE], bytes(PAGE)), "a freed page has bytes of another"
            thing[start : start + length] = self.random.randbytes(length)
        assert thing[:start] == before[:start] and thing[start + length :] == before[start + length :], "neighbours changed"
        entry[1] = seal(thing)

    def work(self, count):
        ways = [self.allocate, self.allocate, self.free, self.grow, self.shrink, self.change, self.discard]
        for _ in range(count):
            self.steps += 1
            self.allocate() if len(self.held) < 5 else self.random.choice(ways)()
            while sum(size_of(thing) for thing, _ in self.held) > self.most_bytes:
                self.free()
        self.check()

    def check(self):
        for entry in self.held:
            check(entry)


# Threads have malloc arenas of their own. They continue through the sleeps, and never wait for them.
failures = []


def keep_working(holder):
    try:
        while not failures:
            holder.work(1)
            time.sleep(0.005)
    except BaseException:
        failures.append(traceback.format_exc())


# A child has the memory of its parent, restored or not, and keeps it through later sleeps.
def serve(pipe, holder):
    while True:
        count = pipe.recv()
        try:
            holder.work(count)
            pipe.send("well")
        except BaseException:
            pipe.send(traceback.format_exc())


class Child:
    def __init__(self, holder):
        context = multiprocessing.get_context("fork")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, holder), daemon=True)
        self.process.start()

    def work(self, count):
        self.pipe.send(count)
        assert self.pipe.poll(50), "a child does not answer"
        answer = self.pipe.recv()
        assert answer == "well", answer

    def end(self):
        self.process.kill()
        self.process.join()


main = Holder(seed, 80 << 20)
workers = [Holder(f"{seed}-{n}", 8 << 20) for n in range(3)]
for worker in workers:
    threading.Thread(target=keep_working, args=(worker,), daemon=True).start()
children = []


def work(count):
    main.work(count)
    # They begin with what their parent holds, and part from it with their first step.
    children.append(Child(main))
    for child in children:
        child.work(count // 4)
    if len(children) > 2:
        children.pop(0).end()
    check_all()


def check_all():
    main.check()
    assert not failures, failures[0]
