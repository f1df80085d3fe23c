"""The files of a build, with the cases of .dockerignore that the TypeScript SDK passes too."""

import json
import os
import tarfile
import tempfile
import unittest
from pathlib import Path

from dormouse import InvalidArgumentError
from dormouse._build_context import DockerIgnore, pack_context

ROOT = Path(__file__).resolve().parents[3]
CASES = json.loads((ROOT / "packages/sdk/src/build-context/docker-ignore.cases.json").read_text(encoding="utf-8"))


class BuildContext(unittest.TestCase):
    def test_dockerignore(self):
        for text, path, is_ignored in CASES:
            with self.subTest(text=text, path=path):
                self.assertEqual(DockerIgnore(text).matches(path), is_ignored)
        with self.assertRaisesRegex(InvalidArgumentError, "is no pattern"):
            DockerIgnore("[z-a]")

    def test_links_stay_links_and_hard_links_are_files(self):
        with tempfile.TemporaryDirectory() as directory:
            root = Path(directory)
            (root / "app").mkdir()
            (root / "app/one").write_text("content")
            os.link(root / "app/one", root / "app/two")
            os.symlink("app", root / "link")
            os.mkfifo(root / "fifo")
            (root / "left").mkdir()
            (root / "left/out").write_text("")
            (root / ".dockerignore").write_text("left\n.dockerignore\n")
            with pack_context(directory) as file, tarfile.open(fileobj=file) as archive:
                members = {member.name: (member.type, member.size, member.linkname) for member in archive}
        self.assertEqual(
            members,
            {
                "app": (tarfile.DIRTYPE, 0, ""),
                "app/one": (tarfile.REGTYPE, 7, ""),
                "app/two": (tarfile.REGTYPE, 7, ""),
                "link": (tarfile.SYMTYPE, 0, "app"),
            },
        )
