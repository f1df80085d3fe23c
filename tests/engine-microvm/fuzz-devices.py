"""Writes to random registers of all virtio devices, and to ports of the older ones, from a fixed seed."""

import mmap
import os
import random
import struct
import sys

SEED = 19
# Selectors, queue addresses, notifications and the status of a virtio-mmio device; and any other register.
REGISTERS = [0x14, 0x20, 0x24, 0x30, 0x38, 0x44, 0x50, 0x64, 0x70, 0x80, 0x84, 0x90, 0x94, 0xA0, 0xA4]
# The serial port, the clock, and the firmware's configuration with its direct memory access.
PORTS = [0x3F8, 0x70, 0x510, 0x514, 0x518]

random.seed(SEED)
with open("/proc/iomem") as regions:
    starts = [int(line.split("-")[0], 16) for line in regions if "LNRO0005" in line or "virtio" in line]
window = min(starts) & ~0xFFF
memory = mmap.mmap(os.open("/dev/mem", os.O_RDWR | os.O_SYNC), 4096, offset=window)
ports = os.open("/dev/port", os.O_RDWR)
# The name of the register set: the window is mapped.
print(memory[:4].decode(), flush=True)
while "--look" not in sys.argv:
    for _ in range(50):
        register = random.choice([*REGISTERS, random.randrange(128) * 4])
        value = random.choice([0, 1, 0xFFFFFFFF, random.getrandbits(32)])
        struct.pack_into("<I", memory, random.randrange(8) * 512 + register, value)
    os.lseek(ports, random.choice(PORTS) + random.randrange(4), os.SEEK_SET)
    os.write(ports, bytes([random.getrandbits(8)]))
