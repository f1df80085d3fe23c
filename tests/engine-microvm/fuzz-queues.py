"""Attacks virtio devices through their queues: fuzz-queues.py SEED ROUNDS REPORT HOW KIND...

KIND is a number that the standard gives to devices. Takes these devices from their drivers, becomes their driver, and
gives them queues in memory of its own. Every fourth request is one that a driver would make. The others have
descriptors that lead nowhere, to registers of devices or in circles, lengths that overflow, tables in tables, and rings
that claim more than there is. `careful` leaves out what makes a device overwrite the kernel of the guest, `reckless`
does not. Writes its numbers to REPORT: one line of JSON every now and then, and `fuzzed` at the end.
"""

import ctypes
import json
import mmap
import os
import random
import sys
import time

PAGE = 4096
QUEUE_SIZE = 16
# Where the rings are in the first page; the used one is where the first version of the standard wants it.
AVAILABLE, USED = 256, 512
NET, BLOCK, CONSOLE, ENTROPY, BALLOON = 1, 2, 3, 4, 5
NEXT, WRITE, INDIRECT = 1, 2, 4
REPORT_EVERY = 10
HONEST_EVERY = 4
ANSWER_SECONDS, IGNORED_SECONDS = 1.0, 0.002
# The queue that is always there, and takes requests at any time.
HONEST_QUEUE = {NET: 1, BLOCK: 0, CONSOLE: 5, ENTROPY: 0, BALLOON: 0}
# Registers of virtio-mmio.
VERSION, KIND, FEATURES, FEATURES_SELECT, ACCEPTED, ACCEPTED_SELECT, PAGE_SIZE = 4, 8, 0x10, 0x14, 0x20, 0x24, 0x28
QUEUE, QUEUE_MAX, QUEUE_NUM, QUEUE_ALIGN, QUEUE_PAGE, QUEUE_READY = 0x30, 0x34, 0x38, 0x3C, 0x40, 0x44
NOTIFY, INTERRUPTS, ACKNOWLEDGE, STATUS = 0x50, 0x60, 0x64, 0x70
DESCRIPTORS, DRIVER_RING, DEVICE_RING = 0x80, 0x90, 0xA0


class Memory:
    """Pages of this process whose physical addresses are known: rings, a header, data, a status, a table."""

    def __init__(self) -> None:
        count = 5
        self.bytes = mmap.mmap(-1, count * PAGE)
        self.bytes[:] = bytes(count * PAGE)
        view = memoryview(self.bytes)
        self.halves, self.words, self.longs = view.cast("H"), view.cast("I"), view.cast("Q")
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))
        with open("/proc/self/pagemap", "rb") as pagemap:
            pagemap.seek(start // PAGE * 8)
            frames = memoryview(pagemap.read(count * 8)).cast("Q")
        self.physical = [(frame & ((1 << 55) - 1)) * PAGE for frame in frames]

    def describe(self, index: int, address: int, length: int, flags: int, following: int = 0, table: int = 0) -> None:
        at = table * PAGE + index * 16
        self.longs[at // 8] = address
        self.words[at // 4 + 2] = length
        self.halves[at // 2 + 6] = flags
        self.halves[at // 2 + 7] = following

    def used(self) -> int:
        return self.halves[USED // 2 + 1]


class Device:
    def __init__(self, registers: memoryview, offset: int) -> None:
        self.registers, self.offset = registers, offset
        self.version, self.kind = self.read(VERSION), self.read(KIND)

    def read(self, register: int) -> int:
        return self.registers[(self.offset + register) // 4]

    def write(self, register: int, value: int) -> None:
        # One access of four bytes: QEMU ignores others.
        self.registers[(self.offset + register) // 4] = value & 0xFFFFFFFF

    def take(self, is_honest: bool) -> None:
        """Resets it and becomes its driver."""
        for status in (0, 1, 3):
            self.write(STATUS, status)
        self.write(FEATURES_SELECT, 0)
        # Without the event ring, which would have to be kept.
        plain = self.read(FEATURES) & ~(1 << 29)
        self.write(ACCEPTED_SELECT, 0)
        some = random.choice([0xFFFFFFFF, 1 << 28, random.getrandbits(32)])
        self.write(ACCEPTED, plain if is_honest else plain & some)
        if self.version == 1:
            self.write(PAGE_SIZE, PAGE)
        else:
            self.write(ACCEPTED_SELECT, 1)
            self.write(ACCEPTED, 1)
            self.write(STATUS, 11)

    def give_queue(self, queue: int, address: int, size: int) -> bool:
        self.write(QUEUE, queue)
        if self.read(QUEUE_MAX) == 0:
            return False
        self.write(QUEUE_NUM, size)
        if self.version == 1:
            self.write(QUEUE_ALIGN, 512)
            self.write(QUEUE_PAGE, address // PAGE)
        else:
            for register, offset in ((DESCRIPTORS, 0), (DRIVER_RING, AVAILABLE), (DEVICE_RING, USED)):
                start = address + offset
                self.write(register, start)
                self.write(register + 4, start >> 32)
            self.write(QUEUE_READY, 1)
        self.write(STATUS, self.read(STATUS) | 4)
        return True


def fill(memory: Memory, kind: int) -> None:
    """A request as the driver of the device would make it."""
    memory.bytes[:] = bytes(len(memory.bytes))
    header, data, status = memory.physical[1:4]
    if kind == BLOCK:
        # Reads the first sector.
        parts = [(header, 16, 0), (data, 512, WRITE), (status, 1, WRITE)]
    elif kind == ENTROPY:
        parts = [(data, 64, WRITE)]
    else:
        # A packet, text, or the number of a page that is given back: the first one, which no kernel uses.
        parts = [(header, 12, 0), (data, 64, 0)] if kind == NET else [(data, 64 if kind == CONSOLE else 4, 0)]
    for index, (address, length, flags) in enumerate(parts):
        is_last = index == len(parts) - 1
        memory.describe(index, address, length, flags | (0 if is_last else NEXT), index + 1)
    memory.halves[AVAILABLE // 2 + 1] = 1


class Lies:
    """Where requests may point to, how long they may be, and how large a queue."""

    def __init__(self, how: str, memory: Memory, registers: list[int], ram_end: int) -> None:
        is_careful = how == "careful"
        # Of the own pages, a balloon takes all but empty ones for numbers of pages that it may take away.
        self.addresses = [1 << 40, (1 << 64) - PAGE, *memory.physical[1:4]]
        self.lengths = [0, 1, 15, PAGE]
        self.tables = [16, 17, 32, PAGE]
        self.sizes = [QUEUE_SIZE]
        self.rings = [memory.physical[0]] * 9 + [1 << 40]
        if not is_careful:
            # A device that writes random numbers to its own registers gives itself queues anywhere.
            self.addresses += [*registers, ram_end - 7, ram_end + 1, 0xFFFF0000, *memory.physical]
            self.rings += registers
            self.lengths += [1 << 31, 0xFFFFFFFF]
            self.tables += [0xFFFFFFF0]
            self.sizes = [QUEUE_SIZE] * 9 + [0, 3, 0x8000, 0xFFFFFFFF]


def spoil(memory: Memory, lies: Lies) -> None:
    """Makes one to three things of a request untrue."""
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(3) * 16
        match random.randrange(7):
            case 0:
                memory.longs[at // 8] = random.choice([*lies.addresses, random.getrandbits(64) | 1 << 40])
            case 1:
                memory.words[at // 4 + 2] = random.choice([*lies.lengths, random.getrandbits(12)])
            case 2:
                memory.halves[at // 2 + 6] = random.choice([0, NEXT, WRITE, INDIRECT, 7, random.getrandbits(16)])
            case 3:
                memory.halves[at // 2 + 7] = random.choice([at // 16, 0, QUEUE_SIZE, 0xFFFF, random.getrandbits(16)])
            case 4:
                memory.halves[AVAILABLE // 2 + 1] = random.choice([2, QUEUE_SIZE, QUEUE_SIZE + 1, 0x8000, 0xFFFF])
            case 5:
                memory.halves[AVAILABLE // 2 + 2] = random.choice([1, QUEUE_SIZE, 0xFFFF, random.getrandbits(16)])
            case 6:
                # A table of its own, which leads in a circle or to itself.
                memory.longs[at // 8], memory.words[at // 4 + 2] = memory.physical[4], random.choice(lies.tables)
                memory.halves[at // 2 + 6] = INDIRECT | random.choice([0, 0, NEXT])
                for index in range(4):
                    flags = random.choice([NEXT, NEXT | WRITE, INDIRECT, 0])
                    somewhere = random.choice(lies.addresses)
                    memory.describe(index, somewhere, 64, flags, random.randrange(5), table=4)


def attack(device: Device, memory: Memory, lies: Lies, is_honest: bool) -> str:
    device.take(is_honest)
    fill(memory, device.kind)
    queue = HONEST_QUEUE[device.kind] if is_honest else random.choice([HONEST_QUEUE[device.kind], random.randrange(7)])
    address, size = memory.physical[0], QUEUE_SIZE
    if not is_honest:
        spoil(memory, lies)
        # Sometimes the rings themselves are where there is no memory, or have no sensible size.
        address, size = random.choice(lies.rings), random.choice(lies.sizes)
    if not device.give_queue(queue, address, size):
        return "absent"
    device.write(NOTIFY, queue if is_honest or random.random() < 0.9 else random.getrandbits(32))
    end = time.monotonic() + (ANSWER_SECONDS if is_honest else IGNORED_SECONDS)
    while memory.used() == 0 and time.monotonic() < end:
        os.sched_yield()
    # What it has begun ends here: the next round has the same pages.
    device.write(ACKNOWLEDGE, device.read(INTERRUPTS))
    device.write(STATUS, 0)
    return "used" if memory.used() != 0 else "ignored"


def take_devices(kinds: list[int]) -> tuple[list[Device], list[int], int]:
    """The devices of these kinds, without drivers; addresses of their registers; and the end of the memory."""
    with open("/proc/iomem") as regions:
        lines = [line.strip() for line in regions]
    starts = {int(line.split("-")[0], 16) for line in lines if "LNRO0005" in line or "virtio" in line}
    ram_end = max(int(line.split("-")[1].split(" ")[0], 16) for line in lines if "System RAM" in line)
    window = min(starts) & ~(PAGE - 1)
    mapped = mmap.mmap(os.open("/dev/mem", os.O_RDWR | os.O_SYNC), PAGE, offset=window)
    view = memoryview(mapped).cast("I")
    found = [Device(view, start - window) for start in sorted(starts)]
    ctypes.CDLL(None).mlockall(3)
    buses = "/sys/bus/virtio"
    # From the card to the disk of the system: what is needed longest is taken last.
    for kind in sorted(kinds, key=[NET, ENTROPY, BALLOON, CONSOLE, BLOCK].index):
        for name in sorted(os.listdir(f"{buses}/devices"), reverse=True):
            with open(f"{buses}/devices/{name}/device") as file:
                is_wanted = int(file.read(), 16) == kind
            if is_wanted and os.path.exists(f"{buses}/devices/{name}/driver"):
                descriptor = os.open(f"{buses}/devices/{name}/driver/unbind", os.O_WRONLY)
                os.write(descriptor, name.encode())
                os.close(descriptor)
    devices = [device for device in found if device.kind in kinds]
    registers = [window + device.offset + at for device in devices for at in (0, NOTIFY, STATUS)]
    return devices, registers, ram_end


def main() -> None:
    seed, rounds, report, how, *kinds = sys.argv[1:]
    random.seed(int(seed))
    target = os.open(report, os.O_WRONLY | os.O_APPEND)
    memory = Memory()
    devices, *around = take_devices([int(kind) for kind in kinds])
    lies = Lies(how, memory, *around)
    numbers = {"devices": sorted(device.kind for device in devices), "rounds": 0}
    for number in range(1, int(rounds) + 1):
        is_honest = number % HONEST_EVERY == 0
        device = devices[number // HONEST_EVERY % len(devices)] if is_honest else random.choice(devices)
        outcome = attack(device, memory, lies, is_honest)
        name = f"{'honest' if is_honest else 'false'} {outcome}"
        numbers[name] = numbers.get(name, 0) + 1
        numbers["rounds"] = number
        if number % REPORT_EVERY == 0 or number == int(rounds):
            os.write(target, f"\nfuzz {json.dumps(numbers)}\n".encode())
    os.write(target, b"\nfuzzed\n")


main()
