"""Writes to random registers of all virtio devices, from a fixed seed."""

import mmap
import os
import random
import struct
import sys

SEED = 19
# Selectors, queue addresses, notifications and the status of a virtio-mmio device; and any other register.
REGISTERS = [0x14, 0x20, 0x24, 0x30, 0x38, 0x44, 0x50, 0x64, 0x70, 0x80, 0x84, 0x90, 0x94, 0xA0, 0xA4]

random.seed(SEED)
with open("/proc/iomem") as regions:
    starts = [int(line.split("-")[0], 16) for line in regions if "LNRO0005" in line or "virtio" in line]
window = min(starts) & ~0xFFF
devices = sorted({start - window for start in starts})
memory = mmap.mmap(os.open("/dev/mem", os.O_RDWR | os.O_SYNC), 4096, offset=window)
# Every device begins with these letters.
print({memory[device : device + 4].decode() for device in devices}, len(devices), flush=True)
while "--look" not in sys.argv:
    register = random.choice([*REGISTERS, random.randrange(128) * 4])
    value = random.choice([0, 1, 0xFFFFFFFF, random.getrandbits(32)])
    struct.pack_into("<I", memory, random.choice(devices) + register, value)
