import { inContext, type PythonSurvivor } from './survive-item.ts'

/**
 * Programs compare device and inode numbers to see whether two names or descriptors are one file. A sleep must not
 * change the result.
 */
export const samenessThatSurvives = inContext('sameness', {
  ...twoConnections(
    'delete',
    'sqlite3 locks between connections from before and after a sleep in one process',
  ),
  ...twoConnections('wal', 'sqlite3 locks between such connections with a write-ahead log'),
  'device and inode numbers of open files, of directories and of the root': {
    setUp: `
      import subprocess
      os.makedirs("/root/same/sub")
      held = open("/root/same/written", "w+"); held.write("x"); held.flush()
      fd = held.fileno()
      def number(status): return (status.st_dev, status.st_ino)
      def numbers():
          by_name = [number(os.stat(path)) for path in ("/root/same/written", "/root/same/sub")]
          return by_name + [number(os.lstat("/root/same/written")), number(os.fstat(fd)), number(os.stat("written", dir_fd=at))]
      at = os.open("/root/same", os.O_RDONLY | os.O_DIRECTORY)
      def from_outside():
          return subprocess.run(["stat", "-c", "%d", "/", "/etc/passwd", "/root/same/written"], capture_output=True, text=True, check=True).stdout.split()
      before, root, seen = numbers(), os.stat("/").st_dev, from_outside()
      assert set(seen) == {str(root)}, (seen, root)
    `,
    check: `
      assert numbers() == before, (numbers(), before)
      assert from_outside() == seen, (from_outside(), seen)
      assert {os.stat(path).st_dev for path in ("/", "/usr", "/etc/passwd", "/root/same")} == {root}
      assert os.path.samestat(os.stat("/root/same/written"), os.fstat(fd))
    `,
  },
  'which directories are mount points': {
    setUp: `
      import subprocess
      def mounts(): return [path for path in ("/", "/usr", "/root", "/tmp", "/proc", "/dev", "/dev/pts", "/sys", "/.dormouse") if os.path.ismount(path)]
      def on_root(): return subprocess.run(["find", "/", "-xdev", "-maxdepth", "2", "-path", "/*/*", "-printf", "%H%P\\\\n"], capture_output=True, text=True).stdout.split()
      before = mounts()
      assert {"/", "/proc", "/dev", "/sys"} <= set(before) and not {"/usr", "/root", "/tmp"} & set(before), before
    `,
    check: `
      assert mounts() == before, (mounts(), before)
      found = on_root()
      assert "/usr/bin" in found and not [path for path in found if path.startswith(("/proc/", "/sys/", "/dev/"))], found
      devices = [os.stat(path).st_dev for path in ("/", "/proc", "/dev", "/sys", "/dev/pts")]
      assert len(set(devices)) == len(devices), devices
    `,
  },
  'a log that watches its file': {
    setUp: `
      import logging.handlers
      handler = logging.handlers.WatchedFileHandler("/root/watched.log")
      log = logging.getLogger("watched"); log.addHandler(handler); log.propagate = False
      log.warning("before")
      stream = handler.stream
    `,
    check: `
      log.warning("after")
      assert handler.stream is stream
    `,
  },
})

function twoConnections(mode: 'delete' | 'wal', title: string): Record<string, PythonSurvivor> {
  const path = `/root/two-${mode}.db`
  const setUp = `
    import sqlite3, subprocess
    def connect(): return sqlite3.connect("${path}", isolation_level=None, timeout=0.1)
    first = connect()
    first.execute("pragma journal_mode=${mode}")
    first.execute("create table t (x)")
    first.execute("begin immediate"); first.execute("insert into t values (1)")
    begin = """if True:
      import sqlite3
      try: sqlite3.connect("${path}", isolation_level=None, timeout=0.1).execute("begin immediate"); print("begun")
      except sqlite3.OperationalError as error: print(error)
    """
    def from_outside(): return subprocess.run([sys.executable, "-c", begin], capture_output=True, text=True, check=True).stdout.strip()
  `
  const check = `
    second = connect()
    try: second.execute("begin immediate"); refused = "begun"
    except sqlite3.OperationalError as error: refused = str(error)
    assert refused == "database is locked", refused
    second.close()
    assert first.in_transaction and from_outside() == "database is locked", from_outside()
    first.execute("commit")
    third = connect()
    assert third.execute("pragma integrity_check").fetchone() == ("ok",)
    third.close()
    first.execute("begin immediate"); first.execute("insert into t values (1)")
  `
  return { [title]: { setUp, check } }
}
