"""Leaves 200 MiB of the disk free, then writes until it is full. Prints the bytes written and the number of the error."""

import os

MIB = 1 << 20
LEFT = 200 * MIB

space = os.statvfs("/")
reserved = os.open("/root/reserved", os.O_CREAT | os.O_WRONLY)
# Nothing is written for these: the file system only notes whose they are.
os.posix_fallocate(reserved, 0, space.f_bfree * space.f_frsize - LEFT)
written, error = 0, 0
data = os.open("/root/data", os.O_CREAT | os.O_WRONLY)
try:
    while True:
        written += os.write(data, bytes([written // MIB % 255 + 1]) * MIB)
        os.fsync(data)
except OSError as caught:
    error = caught.errno
print(written, error)
