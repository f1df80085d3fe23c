"""Layers as sandboxes leave them, and what an overlay of layers shows. Run in a mount namespace of its own.

random-layers.py make SCRATCH SEED COUNT   base/ and layer-1/ … layer-COUNT/ (the last on top), each from random operations
random-layers.py show SCRATCH NAME...      one JSON line per entry of an overlay of these directories, top first
"""

import errno
import hashlib
import json
import os
import random
import shutil
import socket
import stat
import subprocess
import sys

OPERATIONS = 40


def mount(scratch: str, lower: list[str], upper: str | None) -> str:
    target = os.path.join(scratch, "mount")
    os.makedirs(target, exist_ok=True)
    options = f"lowerdir={':'.join(lower)},redirect_dir={'on' if upper else 'follow'},index=off,metacopy=off,xino=off"
    if upper:
        options += f",upperdir={upper},workdir=work"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, target], cwd=scratch, check=True)
    return target


class Walk:
    """Random operations on a tree that is there."""

    def __init__(self, root: str, dice: random.Random) -> None:
        self.root = root
        self.dice = dice
        self.serial = 0

    def entries(self, wanted) -> list[str]:
        found = []
        for directory, directories, files in os.walk(self.root):
            found += [os.path.join(directory, name) for name in directories + files]
        # Sorted before anything is drawn: the order in which a directory is read is its own.
        return [path for path in sorted(found) if wanted(os.lstat(path).st_mode)]

    def pick(self, wanted) -> str | None:
        found = self.entries(wanted)
        return self.dice.choice(found) if found else None

    def place(self) -> str:
        """A name in some directory; few names, so that what comes and goes does so under the same ones."""
        directory = self.dice.choice([self.root, *self.entries(stat.S_ISDIR)])
        return os.path.join(directory, self.dice.choice("abcdefgh"))

    def clear(self, path: str) -> None:
        if os.path.isdir(path) and not os.path.islink(path):
            # Now and then a large one; always would leave nothing to compare.
            entries = sum(len(directories) + len(files) for _, directories, files in os.walk(path))
            if entries < 6 or self.dice.random() < 0.1:
                shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)

    def write(self) -> None:
        path = self.place()
        if os.path.isdir(path):
            return
        if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
            os.unlink(path)
        with open(path, "wb" if self.dice.random() < 0.5 else "ab") as file:
            if self.dice.random() < 0.2:
                file.seek(self.dice.randrange(1 << 20), os.SEEK_CUR)
            self.serial += 1
            file.write(self.dice.randbytes(self.dice.randrange(9000)) + str(self.serial).encode())

    def special(self) -> None:
        path = self.place()
        self.clear(path)
        if os.path.lexists(path):
            return
        match self.dice.randrange(4):
            case 0:
                os.symlink(self.dice.choice(["a", "../b", "/nowhere", "x" * 200]), path)
            case 1:
                os.mkfifo(path)
            case 2:
                with socket.socket(socket.AF_UNIX) as bound:
                    os.chdir(os.path.dirname(path))
                    bound.bind(os.path.basename(path))
                    os.chdir("/")
            case 3:
                os.mkdir(path)

    def make_directory(self) -> None:
        path = self.place()
        if not os.path.lexists(path):
            os.mkdir(path)

    def link(self) -> None:
        path, target = self.pick(stat.S_ISREG), self.place()
        if path and not os.path.lexists(target):
            os.link(path, target)

    def rename(self) -> None:
        path = self.pick(stat.S_ISDIR if self.dice.random() < 0.7 else lambda mode: True)
        target = self.place()
        if not path or (target + "/").startswith(path + "/") or (path + "/").startswith(target + "/"):
            return
        if self.dice.random() < 0.5:
            self.clear(target)
        try:
            os.rename(path, target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EISDIR, errno.ENOTDIR, errno.EEXIST):
                raise

    def remove(self) -> None:
        path = self.pick(lambda mode: not stat.S_ISDIR(mode) or self.dice.random() < 0.3)
        if path:
            self.clear(path)

    def replace(self) -> None:
        """A directory by another of the same name, or by a file."""
        path = self.pick(stat.S_ISDIR)
        if path:
            self.clear(path)
            if os.path.lexists(path):
                return
            if self.dice.random() < 0.7:
                os.mkdir(path)
            else:
                open(path, "w").close()

    def change(self) -> None:
        path = self.pick(lambda mode: not stat.S_ISLNK(mode))
        if not path:
            return
        os.chown(path, self.dice.randrange(100000, 100010), self.dice.randrange(100000, 100010))
        os.chmod(path, self.dice.choice([0o644, 0o755, 0o600, 0o2750, 0o4711, 0o1777]))
        os.utime(path, ns=(self.dice.randrange(10**18), self.dice.randrange(10**18)))

    def attribute(self) -> None:
        path = self.pick(lambda mode: stat.S_ISREG(mode) or stat.S_ISDIR(mode))
        if path:
            name = self.dice.choice(["user.one", "user.two", "trusted.three"])
            os.setxattr(path, name, self.dice.randbytes(self.dice.randrange(40)))
            if self.dice.random() < 0.2:
                os.removexattr(path, name)

    def go(self) -> None:
        kinds = [self.write] * 4 + [self.make_directory] * 4 + [self.rename] * 4
        kinds += [self.special, self.link, self.remove, self.replace, self.change, self.attribute]
        for _ in range(OPERATIONS):
            self.dice.choice(kinds)()


def make(scratch: str, seed: int, count: int) -> None:
    dice = random.Random(seed)
    os.mkdir(os.path.join(scratch, "base"))
    base = Walk(os.path.join(scratch, "base"), dice)
    for _ in range(3):
        base.go()
    lower = ["base"]
    for index in range(1, count + 1):
        name = f"layer-{index}"
        for each in (name, "work"):
            os.mkdir(os.path.join(scratch, each))
        target = mount(scratch, lower, name)
        Walk(target, dice).go()
        subprocess.run(["umount", target], check=True)
        shutil.rmtree(os.path.join(scratch, "work"))
        lower.insert(0, name)


def describe(path: str, relative: str, names: dict[tuple[int, int], str]) -> dict[str, object]:
    status = os.lstat(path)
    kind = stat.S_IFMT(status.st_mode)
    entry: dict[str, object] = {
        "path": relative,
        "mode": oct(status.st_mode),
        "owner": [status.st_uid, status.st_gid],
        "mtime": status.st_mtime_ns,
        "device": status.st_rdev,
        "attributes": {
            name: os.getxattr(path, name, follow_symlinks=False).hex() for name in sorted(os.listxattr(path, follow_symlinks=False))
        },
    }
    if kind == stat.S_IFLNK:
        entry["target"] = os.readlink(path)
    if kind == stat.S_IFREG:
        entry["content"] = hashlib.sha256(open(path, "rb").read()).hexdigest()
        entry["same as"] = names.setdefault((status.st_dev, status.st_ino), relative)
    return entry


def show(scratch: str, layers: list[str]) -> None:
    target = mount(scratch, layers, None)
    names: dict[tuple[int, int], str] = {}
    print(json.dumps(describe(target, ".", names)))
    for directory, directories, files in os.walk(target):
        directories.sort()
        for name in sorted(directories + files):
            path = os.path.join(directory, name)
            print(json.dumps(describe(path, os.path.relpath(path, target), names)))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        show(sys.argv[2], sys.argv[3:])
