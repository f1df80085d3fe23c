"""Writes to registers of devices at random: fuzz-devices.py SEED ROUNDS virtio|platform

Of all virtio devices, or of what else the machine has: interrupt controller, power, clock and the configuration of
firmware. Writes its numbers to the console, without a driver: one line of JSON every now and then, and `fuzzed` at the
end.
"""

import ctypes
import json
import mmap
import os
import random
import struct
import sys
import time

PAGE = 4096
UNTIL_READ_S = 0.5
REPORT_EVERY = 100
CONSOLE_PORT = 0x3F8
# Selectors, queue addresses, notifications and the status of a virtio-mmio device; and any other register.
VIRTIO = [0x14, 0x20, 0x24, 0x30, 0x38, 0x44, 0x50, 0x64, 0x70, 0x80, 0x84, 0x90, 0x94, 0xA0, 0xA4]
# The number of a register of the interrupt controller, and its value.
INTERRUPTS, INTERRUPT_REGISTERS = 0xFEC00000, (0x00, 0x10, 0x40)
# Events of the power supply. The registers behind them, which turn the machine off, are left out.
POWER, POWER_REGISTERS = 0xFEA00000, (0x00, 0x04)
CLOCK_PORTS = (0x70, 0x71)
# Selector, data, and the address of a description of a transfer, in two halves.
FIRMWARE_PORTS = (0x510, 0x511, 0x514, 0x518)


class Ports:
    """The kernel of the guest has no /dev/port, so this has the instructions themselves."""

    # Puts the port into edx and the value into eax.
    ARGUMENTS = b"\x89\xfa\x89\xf0"

    def __init__(self) -> None:
        if ctypes.CDLL(None, use_errno=True).iopl(3) != 0:
            raise OSError(ctypes.get_errno(), "iopl")
        self.code = mmap.mmap(-1, PAGE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self.outputs = {size: self._compile(code) for size, code in ((1, b"\xee"), (2, b"\x66\xef"), (4, b"\xef"))}
        self.read = self._compile(b"\xec")

    def _compile(self, instruction: bytes):
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.code)) + self.code.tell()
        # The byte that was read, and nothing else of eax.
        self.code.write(self.ARGUMENTS + instruction + b"\x0f\xb6\xc0\xc3")
        return ctypes.CFUNCTYPE(ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32)(start)

    def write(self, port: int, value: int, size: int = 1) -> None:
        self.outputs[size](port, value)


def map_page(address: int) -> memoryview:
    # Each access has four bytes: QEMU ignores others.
    return memoryview(mmap.mmap(os.open("/dev/mem", os.O_RDWR | os.O_SYNC), PAGE, offset=address)).cast("I")


def some_value() -> int:
    return random.choice([0, 1, 0xFFFFFFFF, random.getrandbits(32)])


class Virtio:
    def __init__(self) -> None:
        with open("/proc/iomem") as regions:
            starts = [int(line.split("-")[0], 16) for line in regions if "LNRO0005" in line or "virtio" in line]
        window = min(starts) & ~(PAGE - 1)
        self.devices = sorted({start - window for start in starts})
        self.memory = map_page(window)
        # Every device begins with these letters.
        letters = {struct.pack("<I", self.memory[device // 4]).decode() for device in self.devices}
        self.numbers = {"devices": len(self.devices), "letters": sorted(letters)}

    def attack(self) -> None:
        register = random.choice([*VIRTIO, random.randrange(128) * 4])
        self.memory[(random.choice(self.devices) + register) // 4] = some_value()


class Platform:
    def __init__(self, ports: Ports) -> None:
        self.ports = ports
        self.memory = [(map_page(INTERRUPTS), INTERRUPT_REGISTERS), (map_page(POWER), POWER_REGISTERS)]
        ports.write(FIRMWARE_PORTS[0], 0, 2)
        # The first configuration names its maker.
        letters = bytes(ports.read(FIRMWARE_PORTS[1], 0) for _ in range(4))
        self.numbers = {"devices": len(self.memory) + 2, "letters": [letters.decode()]}

    def attack(self) -> None:
        kind = random.randrange(4)
        if kind < 2:
            memory, registers = self.memory[kind]
            memory[random.choice(registers) // 4] = some_value()
        elif kind == 2:
            self.ports.write(random.choice(CLOCK_PORTS), random.getrandbits(8))
        else:
            port = random.choice(FIRMWARE_PORTS)
            self.ports.write(port, some_value(), {0x510: 2, 0x511: 1}.get(port, 4))


def main() -> None:
    seed, rounds, what = sys.argv[1:]
    random.seed(int(seed))
    ctypes.CDLL(None).mlockall(3)
    ports = Ports()
    target = Virtio() if what == "virtio" else Platform(ports)

    def report(line: str) -> None:
        for byte in f"\n{line}\n".encode():
            ports.write(CONSOLE_PORT, byte)

    for number in range(int(rounds) + 1):
        if number % REPORT_EVERY == 0 or number == int(rounds):
            report(f"fuzz {json.dumps({**target.numbers, 'rounds': number})}")
        if number == 0:
            # The console goes with the machine, which the first attack may end.
            time.sleep(UNTIL_READ_S)
        target.attack()
    report("fuzzed")


main()
