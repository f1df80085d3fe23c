import { inContext, type PythonSurvivor } from './survive-item.ts'

export const filesThatSurvive = inContext('files', {
  'open files with their position: read, written in the middle, appended': {
    setUp: `
      os.makedirs("/root/open", exist_ok=True)
      open("/root/open/read", "w").write("0123456789" * 1000)
      reading = open("/root/open/read"); reading.seek(5000)
      open("/root/open/both", "wb").write(b"-" * 100)
      both = open("/root/open/both", "r+b", buffering=0); both.seek(50); both.write(b"here")
      log = open("/root/open/log", "a"); log.write("one\\n"); log.flush()
      buffered = open("/root/open/buffered", "w"); buffered.write("not yet written")
      n, position = 1, 54
      twin = os.dup(both.fileno())
    `,
    check: `
      assert reading.tell() == 5000 and reading.read(10) == "0123456789" and reading.seek(5000)
      assert both.tell() == position and both.write(b"+") == 1
      position += 1
      assert os.lseek(twin, 0, os.SEEK_CUR) == position
      assert open("/root/open/both", "rb").read() == b"-" * 50 + b"here" + b"+" * (position - 54) + b"-" * (100 - position)
      open("/root/open/log", "a").write("other\\n")
      log.write("more\\n"); log.flush()
      assert open("/root/open/log").read() == "one\\n" + "other\\nmore\\n" * n
      n += 1
      assert os.path.getsize("/root/open/buffered") == 0
    `,
  },
  'open files without a name: deleted, temporary, renamed, in a directory that is gone': {
    setUp: `
      import tempfile
      deleted = open("/root/deleted", "w+b"); deleted.write(b"d" * 100_000); deleted.flush(); os.unlink("/root/deleted")
      template = open("/etc/debian_version"); kept = template.read(); os.unlink("/etc/debian_version")
      temporary = tempfile.TemporaryFile(); temporary.write(b"temporary"); temporary.flush()
      renamed = open("/root/before", "w+"); renamed.write("renamed"); renamed.flush(); os.rename("/root/before", "/root/after")
      linked = open("/root/linked", "w+"); linked.write("x"); linked.flush()
      os.link("/root/linked", "/root/other-name"); os.unlink("/root/linked")
      os.makedirs("/root/gone"); in_gone = open("/root/gone/file", "w+"); in_gone.write("in gone"); in_gone.flush()
      os.unlink("/root/gone/file"); os.rmdir("/root/gone")
      directory = os.open("/root", os.O_RDONLY | os.O_DIRECTORY)
    `,
    check: `
      assert deleted.tell() == 100_000 and os.fstat(deleted.fileno()).st_nlink == 0
      deleted.seek(0)
      assert deleted.read() == b"d" * 100_000 and not os.path.exists("/root/deleted")
      template.seek(0)
      assert template.read() == kept and not os.path.exists("/etc/debian_version")
      temporary.seek(0)
      assert temporary.read() == b"temporary"
      renamed.seek(0)
      assert renamed.read() == "renamed" and os.path.samestat(os.stat("/root/after"), os.fstat(renamed.fileno()))
      linked.seek(0)
      assert linked.read() == open("/root/other-name").read() == "x"
      in_gone.seek(0)
      assert in_gone.read() == "in gone" and not os.path.exists("/root/gone")
      assert "after" in os.listdir(directory)
      left = [name for path in ("/root", "/tmp", "/etc", "/") for name in os.listdir(path) if "link_remap" in name or ".cr." in name]
      assert left == [], left
    `,
  },
  'shared and private mappings of files': {
    setUp: `
      import mmap
      for name in ("shared", "private"): open(f"/root/{name}", "wb").write(b"." * (1 << 20))
      with open("/root/shared", "r+b") as file: shared = mmap.mmap(file.fileno(), 0)
      with open("/root/private", "r+b") as file: private = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE)
      shared[100:105] = private[100:105] = b"first"
      n = 0
    `,
    check: `
      assert shared[100:105] == private[100:105] == b"first" and shared[200:200 + n] == private[200:200 + n] == b"+" * n
      shared[200 + n] = private[200 + n] = ord("+")
      n += 1
      assert shared[1 << 19:] == private[1 << 19:] == b"." * (1 << 19)
      assert open("/root/shared", "rb").read() == shared[:]
      assert open("/root/private", "rb").read() == b"." * (1 << 20)
      with open("/root/shared", "r+b") as file: os.pwrite(file.fileno(), b"~", 300)
      assert shared[300:301] == b"~"
    `,
  },
  ...sqliteIn('delete', 'an open sqlite3 database inside a transaction'),
  ...sqliteIn('wal', 'an open sqlite3 database with a write-ahead log inside a transaction'),
  'files of every kind, with their owners, modes, times and attributes': {
    setUp: `
      import socket, stat
      os.makedirs("/root/kinds/sub"); os.chdir("/root/kinds")
      open("plain", "w").write("plain"); os.chmod("plain", 0o4751); os.chown("plain", 1000, 33)
      os.utime("plain", ns=(1_000_000_001, 2_000_000_002))
      os.link("plain", "hard"); os.symlink("nowhere/at all", "soft"); os.mkfifo("fifo", 0o604)
      server = socket.socket(socket.AF_UNIX); server.bind("/root/kinds/socket"); server.close()
      with open("sparse", "wb") as file: file.truncate(1 << 30); file.seek(1 << 29); file.write(b"island")
      os.setxattr("sub", "user.note", b"of the directory"); os.setxattr("sparse", "user.note", b"of the file")
      open(b"not utf-8 \\xff \\n \\\\ '\\"".replace(b"/", b""), "w").write("name")
      os.chmod("sub", 0o2770); os.mkdir("empty")
      os.unlink("/etc/issue.net"); os.chdir("/")
      def look():
          seen = {}
          for name in sorted(os.listdir(b"/root/kinds")):
              path = b"/root/kinds/" + name
              s = os.lstat(path)
              seen[name] = (s.st_mode, s.st_uid, s.st_gid, s.st_nlink, s.st_mtime_ns, s.st_size, s.st_blocks if stat.S_ISREG(s.st_mode) else 0)
          return seen
      seen = look()
    `,
    check: `
      assert look() == seen, (look(), seen)
      assert seen[b"sparse"][6] * 512 < 1 << 20
      assert os.path.samefile("/root/kinds/plain", "/root/kinds/hard") and os.readlink("/root/kinds/soft") == "nowhere/at all"
      with open("/root/kinds/sparse", "rb") as file: assert os.pread(file.fileno(), 8, (1 << 29) - 1) == b"\\0island\\0"
      assert os.getxattr("/root/kinds/sub", "user.note") == b"of the directory"
      assert os.getxattr("/root/kinds/sparse", "user.note") == b"of the file"
      assert open(b"/root/kinds/not utf-8 \\xff \\n \\\\ '\\"").read() == "name"
      assert not os.path.exists("/etc/issue.net") and os.path.exists("/etc/passwd")
    `,
  },
})

function sqliteIn(mode: 'delete' | 'wal', title: string): Record<string, PythonSurvivor> {
  const setUp = `
    import sqlite3, subprocess
    code = """if True:
      import sqlite3, sys
      try: print(sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0.1).execute(sys.argv[2]).fetchone())
      except sqlite3.Error as error: print(error)
    """
    def from_outside(sql):
        argv = [sys.executable, "-c", code, "/root/${mode}.db", sql]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
    connection = sqlite3.connect("/root/${mode}.db", isolation_level=None, timeout=0.1)
    connection.execute("pragma journal_mode=${mode}")
    connection.execute("create table t (x)")
    def insert():
        connection.execute("begin immediate")
        connection.executemany("insert into t values (?)", [(i,) for i in range(1000)])
    insert()
    rows = 1000
  `
  const check = `
    assert connection.in_transaction
    assert connection.execute("select count(*), sum(x) from t").fetchone() == (rows, rows // 1000 * 499500)
    assert from_outside("select count(*) from t") == f"({rows - 1000},)"
    assert from_outside("begin immediate") == "database is locked", from_outside("begin immediate")
    connection.execute("commit")
    assert from_outside("select count(*) from t") == f"({rows},)"
    assert from_outside("pragma integrity_check") == "('ok',)"
    insert()
    rows += 1000
  `
  return { [title]: { setUp, check } }
}
