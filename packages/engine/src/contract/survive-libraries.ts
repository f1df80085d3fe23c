import { inContext } from './survive-item.ts'

/**
 * Libraries that a process has loaded. The kernel of the default context starts from the snapshot of its template, in
 * which an engine may map libraries from other files than their own.
 */
export const librariesThatSurvive = inContext('default', {
  'a library that is loaded, when it is loaded again by name or by path': {
    setUp: `
      import ctypes, ctypes.util, _ctypes, zlib, numpy
      paths = [zlib.__file__] if getattr(zlib, "__file__", None) else []
      paths.append(numpy._core._multiarray_umath.__file__)
      handles = {path: ctypes.CDLL(path)._handle for path in paths}
      libz = ctypes.CDLL("libz.so.1")
      libz.crc32.restype = ctypes.c_ulong
      def crc(): return libz.crc32(0, b"dormouse", 8)
      address = ctypes.cast(libz.crc32, ctypes.c_void_p).value
      value = crc()
      assert value == zlib.crc32(b"dormouse")
    `,
    check: `
      # The loader compares device and inode of the file with those of what it has loaded.
      assert {path: ctypes.CDLL(path)._handle for path in paths} == handles
      again = ctypes.CDLL("libz.so.1")
      assert ctypes.cast(again.crc32, ctypes.c_void_p).value == address and crc() == value
    `,
  },
  'the names of functions in a traceback of C code': {
    setUp: `
      import ctypes, numpy
      class Found(ctypes.Structure):
          _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("at", ctypes.c_void_p)]
      process = ctypes.CDLL(None)
      def look_up(address):
          found = Found()
          assert process.dladdr(ctypes.c_void_p(address), ctypes.byref(found)) != 0
          return found.file, found.base, found.name, found.at
      functions = [ctypes.CDLL("libz.so.1").inflate, ctypes.CDLL("libc.so.6").qsort, ctypes.pythonapi.PyObject_Repr]
      addresses = [ctypes.cast(each, ctypes.c_void_p).value for each in functions]
      names = [look_up(address) for address in addresses]
      assert [name[2] for name in names][0] == b"inflate", names
    `,
    check: `
      assert [look_up(address) for address in addresses] == names
      frames = (ctypes.c_void_p * 64)()
      assert process.backtrace(frames, 64) > 3
    `,
  },
  'the list of loaded libraries': {
    setUp: `
      import ctypes
      class Info(ctypes.Structure):
          _fields_ = [("base", ctypes.c_void_p), ("name", ctypes.c_char_p)]
      def loaded():
          found = []
          kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Info), ctypes.c_size_t, ctypes.c_void_p)
          def add(info, size, data): found.append((info.contents.base, info.contents.name)); return 0
          ctypes.CDLL(None).dl_iterate_phdr(kind(add), None)
          return found
      before = loaded()
      assert any(b"numpy" in name for base, name in before), before
    `,
    check: `
      assert set(before) <= set(loaded())
      # The start of every library still is what the loader mapped there.
      for base, name in before:
          if base and name.startswith(b"/usr/"): assert ctypes.string_at(base, 4) == b"\\x7fELF", name
    `,
  },
  'code, constants and variables of libraries': {
    setUp: `
      import ctypes, hashlib
      def segments():
          areas = []
          for line in open("/proc/self/maps"):
              spans, prot, *rest = line.split()
              start, end = (int(each, 16) for each in spans.split("-"))
              if prot[0] == "r" and "w" not in prot and len(rest) > 3 and rest[3].startswith("/"): areas.append((start, end))
          return areas
      sums = {area: hashlib.md5(ctypes.string_at(area[0], area[1] - area[0])).digest() for area in segments()}
      import json, decimal, sqlite3, numpy.linalg
      def compute():
          database = sqlite3.connect(":memory:")
          root = database.execute("select sqrt(2)").fetchone()[0]
          solved = numpy.linalg.solve([[2.0, 1.0], [1.0, 3.0]], [1.0, 2.0]).tolist()
          return root, solved, str(decimal.Decimal(2).sqrt()), json.dumps({"a": [1.5, None]})
      result = compute()
    `,
    check: `
      for (start, end), sum in sums.items():
          assert hashlib.md5(ctypes.string_at(start, end - start)).digest() == sum, hex(start)
      assert compute() == result
    `,
  },
  'faulthandler, and a child that faults': {
    setUp: `
      import faulthandler, subprocess, tempfile
      def dump():
          with tempfile.TemporaryFile() as file:
              faulthandler.dump_traceback(file); file.seek(0)
              return file.read().decode()
      assert "in dump" in dump()
      def fault():
          pid = os.fork()
          if pid == 0:
              import ctypes
              null = os.open("/dev/null", os.O_WRONLY)
              os.dup2(null, 2); faulthandler.enable(null)
              ctypes.string_at(0)
          return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
      assert fault() == -11
    `,
    check: `
      assert "in dump" in dump()
      assert fault() == -11
    `,
  },
  'a library that is loaded for the first time, and one that is unloaded': {
    setUp: `
      import ctypes, _ctypes
      candidates = [path for path in ("/usr/lib/x86_64-linux-gnu/libnss_dns.so.2", "/usr/lib/x86_64-linux-gnu/libBrokenLocale.so.1", "/usr/lib/x86_64-linux-gnu/libthread_db.so.1") if os.path.exists(path)]
      def load():
          library = ctypes.CDLL(candidates[0])
          handle = library._handle
          _ctypes.dlclose(handle)
    `,
    check: `
      load(); load()
      import subprocess
      assert subprocess.run([sys.executable, "-c", "import numpy; print(numpy.arange(3).sum())"], capture_output=True, text=True).stdout == "3\\n"
    `,
  },
})
