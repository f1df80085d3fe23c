import { newSandboxId } from '@dormouse/contracts'
import { describe, expect, test } from 'vitest'
import type { Burrow } from '../engine.ts'
import type { EngineFactory } from './engine-factory.ts'
import { forkBurrow } from './fork-burrow.ts'
import { printed, useVolumes } from './volumes.ts'

/** Changes of files on a volume that a sleeping sandbox has open. */
export function describeVolumesAsleep(factory: EngineFactory): void {
  describe('volumes that change while a burrow sleeps', () => {
    const bench = useVolumes(factory)

    /** Puts the burrow to sleep, runs `meanwhile` in another burrow, and wakes it. */
    const sleepWhile = async (sleeper: Burrow, neighbour: Burrow, meanwhile: string) => {
      const { snapshot } = await bench.engine.snapshot(sleeper, { leave: 'gone' })
      const { error } = await neighbour.guest.runs.run({ code: meanwhile })
      expect(error).toBeUndefined()
      const woken = bench.hold(await bench.engine.restore(snapshot.id, { sandboxId: sleeper.sandboxId }))
      await bench.engine.deleteSnapshot(snapshot.id)
      return woken
    }
    const pair = async () => {
      const id = await bench.volume()
      return [await bench.mounting(id), await bench.mounting(id)] as const
    }

    test('an open file that grew or shrank has its new content, at the same position', async () => {
      const [sleeper, neighbour] = await pair()
      await printed(
        sleeper,
        'open("/data/f", "w").write("0123456789"); f = open("/data/f"); print(f.read(4))',
      )
      const longer = await sleepWhile(sleeper, neighbour, 'open("/data/f", "a").write("abc")')
      expect(await printed(longer, 'print(f.read())')).toBe('456789abc')
      const shorter = await sleepWhile(longer, neighbour, 'import os; os.truncate("/data/f", 2)')
      expect(await printed(shorter, 'print(repr(f.read())); f.seek(0); print(f.read())')).toBe("''\n01")
    })

    test('an open file whose mode changed, or that was replaced, is opened again by name', async () => {
      const [sleeper, neighbour] = await pair()
      await printed(sleeper, 'open("/data/f", "w").write("old"); f = open("/data/f", "r+")')
      const code =
        'import os; open("/data/g", "w").write("new!"); os.chmod("/data/g", 0o600); os.rename("/data/g", "/data/f")'
      const woken = await sleepWhile(sleeper, neighbour, code)
      expect(await printed(woken, 'print(f.read())')).toBe('new!')
      expect(await printed(woken, 'f.write("+"); f.flush(); print(open("/data/f").read())')).toBe('new!+')
    })

    test('an open file that was deleted is empty, and can be written', async () => {
      const [sleeper, neighbour] = await pair()
      const code = `import os; os.makedirs("/data/d")
open("/data/d/f", "w").write("old"); f = open("/data/d/f", "r+")`
      await printed(sleeper, code)
      const woken = await sleepWhile(sleeper, neighbour, 'import shutil; shutil.rmtree("/data/d")')
      const check = `print(os.fstat(f.fileno()).st_nlink, f.read(), f.write("x"), f.flush())
print(os.listdir("/data"), [n for n in os.listdir("/") if n.startswith(".volume")])`
      expect(await printed(woken, check)).toBe('0  1 None\n[] []')
      const again = await sleepWhile(woken, neighbour, 'pass')
      expect(await printed(again, 'f.seek(0); print(f.read())')).toBe('x')
    })

    test('an open file that was replaced by another type counts as deleted', async () => {
      const [sleeper, neighbour] = await pair()
      await printed(sleeper, 'open("/data/f", "w").write("old"); f = open("/data/f")')
      const code = 'import os; os.remove("/data/f"); os.mkfifo("/data/f")'
      const woken = await sleepWhile(sleeper, neighbour, code)
      expect(await printed(woken, 'import os; print(os.fstat(f.fileno()).st_nlink, repr(f.read()))')).toBe(
        "0 ''",
      )
    })

    test('an open file that was deleted before the sleep keeps its content', async () => {
      const [sleeper, neighbour] = await pair()
      const code =
        'import os; os.mkdir("/data/d"); f = open("/data/d/f", "w+"); f.write("kept"); f.flush(); os.remove("/data/d/f"); import tempfile; t = tempfile.TemporaryFile(dir="/data"); t.write(b"temporary"); t.flush()'
      await printed(sleeper, code)
      const woken = await sleepWhile(sleeper, neighbour, 'import os; os.rmdir("/data/d")')
      expect(await printed(woken, 'f.seek(0); print(f.read(), os.fstat(f.fileno()).st_nlink)')).toBe('kept 0')
      expect(await printed(woken, 't.seek(0); print(t.read(), os.listdir("/data"))')).toBe("b'temporary' []")
    })

    test('open files behave the same on a read-only mount', async () => {
      const id = await bench.volume()
      const neighbour = await bench.mounting(id)
      await printed(neighbour, 'for n in "abc": open("/data/" + n, "w").write(n)')
      const reader = await bench.mounting({ volumeId: id, path: '/data', readOnly: true })
      await printed(reader, 'a, b, c = [open("/data/" + n) for n in "abc"]')
      await printed(neighbour, 'import os; os.remove("/data/a")')
      const woken = await sleepWhile(
        reader,
        neighbour,
        'os.remove("/data/b"); open("/data/c", "a").write("+")',
      )
      expect(await printed(woken, 'print(a.read(), repr(b.read()), c.read())')).toBe("a '' c+")
    })

    test('mappings of a shortened or deleted file do not prevent the wake, and keep what was written', async () => {
      const [sleeper, neighbour] = await pair()
      const code = `import mmap
for n in "abcd": open("/data/" + n, "wb").write(b"0" * 20_000)
def map(n, **how):
    with open("/data/" + n, "r+b") as f: return mmap.mmap(f.fileno(), 0, **how)
a, b, c = map("a", access=mmap.ACCESS_COPY), map("b", access=mmap.ACCESS_COPY), map("c")
d = map("d")
for m in (a, b, c, d): m[10_000] = 65`
      expect(await printed(sleeper, code)).toBe('')
      const meanwhile =
        'import os; os.truncate("/data/a", 100); os.remove("/data/b"); os.remove("/data/d"); open("/data/c", "r+b").write(b"9")'
      const woken = await sleepWhile(sleeper, neighbour, meanwhile)
      // What was written to the deleted one may be gone with it.
      expect(await printed(woken, 'print(a[10_000], b[10_000], c[10_000], c[0], d[10_000], len(a))')).toMatch(
        /^65 65 65 57 (0|65) 20000$/,
      )
    })

    /** A shell and a library of the volume, which later code asks whether they still work. */
    const START_SHELL = `import ctypes, glob, os, shutil, subprocess
shutil.copy("/usr/bin/bash", "/data/shell")
shutil.copy(glob.glob("/usr/lib/*/libz.so.1")[0], "/data/libz.so")
z = ctypes.CDLL("/data/libz.so")
shell = subprocess.Popen(["/data/shell"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def ask(line):
    shell.stdin.write(line + "\\n"); shell.stdin.flush()
    return shell.stdout.readline().strip()
def on_volume(): return "/data/shell" in open(f"/proc/{shell.pid}/maps").read()
print(ask("x=1; echo $((x + 1))"), z.crc32(0, b"abc", 3))`
    const REPLACE_SHELL = `import os
open("/data/new", "wb").write(b"no program" * 200_000)
os.rename("/data/new", "/data/shell"); os.remove("/data/libz.so")`

    test('replaced or deleted programs and libraries continue unchanged', async () => {
      const [sleeper, neighbour] = await pair()
      expect(await printed(sleeper, START_SHELL)).toBe('2 891568578')
      const same = await sleepWhile(sleeper, neighbour, 'pass')
      const check = 'print(ask("echo $((x + 2)) $(type -t if)"), z.adler32(1, b"abc", 3))'
      expect(await printed(same, check)).toBe('3 keyword 38600999')
      const other = await sleepWhile(same, neighbour, REPLACE_SHELL)
      expect(await printed(other, check)).toBe('3 keyword 38600999')
      const again = await sleepWhile(other, neighbour, 'pass')
      expect(await printed(again, check)).toBe('3 keyword 38600999')
    })

    test('mappings of a replaced program are not shown as those of the file on the volume', async () => {
      const [sleeper, neighbour] = await pair()
      await printed(sleeper, START_SHELL)
      expect(await printed(sleeper, 'print(on_volume())')).toBe('True')
      const other = await sleepWhile(sleeper, neighbour, REPLACE_SHELL)
      expect(await printed(other, 'print(on_volume())')).toBe('False')
    })

    test('the current directory is the same after a sleep; one that is gone can be left', async () => {
      const [sleeper, neighbour] = await pair()
      await printed(sleeper, 'import os; os.makedirs("/data/d/e"); os.chdir("/data/d/e")')
      const there = await sleepWhile(sleeper, neighbour, 'pass')
      expect(await printed(there, 'print(os.getcwd())')).toBe('/data/d/e')
      const gone = await sleepWhile(there, neighbour, 'import shutil; shutil.rmtree("/data/d")')
      expect(await printed(gone, 'open("x", "w")')).toMatch(/^FileNotFoundError/)
      expect(await printed(gone, 'os.chdir("/data"); print(os.listdir("/"), os.listdir())')).not.toMatch(
        /\.volume/,
      )
    })

    test('a removed current directory counts as deleted', async () => {
      const [sleeper, neighbour] = await pair()
      await printed(sleeper, 'import os; os.makedirs("/data/d/e"); os.chdir("/data/d/e")')
      const gone = await sleepWhile(sleeper, neighbour, 'import shutil; shutil.rmtree("/data/d")')
      expect(await printed(gone, 'os.getcwd()')).toMatch(/^FileNotFoundError/)
    })

    /** Two watched directories; the neighbour removes one of them during the sleep. */
    const watchAsleep = async (sleeper: Burrow, neighbour: Burrow) => {
      const code = `import ctypes, os, select
libc = ctypes.CDLL(None); os.mkdir("/data/stays"); os.mkdir("/data/goes")
fd = libc.inotify_init1(0o4000)
print(libc.inotify_add_watch(fd, b"/data/stays", 0x100), libc.inotify_add_watch(fd, b"/data/goes", 0x100))`
      expect(await printed(sleeper, code)).toBe('1 2')
      return sleepWhile(sleeper, neighbour, 'import os; os.rmdir("/data/goes")')
    }

    test('watches of existing files continue, beside watches of removed files', async () => {
      const [sleeper, neighbour] = await pair()
      const woken = await watchAsleep(sleeper, neighbour)
      await printed(woken, 'open("/data/stays/new", "w")')
      expect(await printed(woken, 'print(b"new" in os.read(fd, 4096))')).toBe('True')
    })

    test('watches see what others change after the sleep', async () => {
      const [sleeper, neighbour] = await pair()
      const woken = await watchAsleep(sleeper, neighbour)
      await printed(neighbour, 'open("/data/stays/new", "w")')
      expect(await printed(woken, 'print(b"new" in os.read(fd, 4096))')).toBe('True')
    })

    test('a fork and its parent share a lock for reading', async () => {
      const [parent, neighbour] = await pair()
      const code =
        'import fcntl; open("/data/f", "w").write("x"); f = open("/data/f"); fcntl.flock(f, fcntl.LOCK_SH)'
      await printed(parent, code)
      const forked = await forkBurrow(bench.engine, parent, { sandboxIds: [newSandboxId()] })
      for (const burrow of [forked.parent, ...forked.children].map((one) => bench.hold(one))) {
        const attempt = `
import fcntl
g = open("/data/f", "r+")
try: fcntl.flock(g, fcntl.LOCK_EX | fcntl.LOCK_NB); print("got it")
except OSError: print("held")`
        expect(await printed(neighbour, attempt)).toBe('held')
        await printed(burrow, 'f.close()')
      }
      const again = 'fcntl.flock(g, fcntl.LOCK_EX | fcntl.LOCK_NB); print("got it")'
      expect(await printed(neighbour, again)).toBe('got it')
    })

    test.each(['flock', 'lockf'])(
      'a lock by %s is given back at the wake, or the wake is refused',
      async (call) => {
        const [sleeper, neighbour] = await pair()
        const code = `import fcntl; f = open("/data/f", "w+"); f.write("x"); f.flush(); fcntl.${call}(f, fcntl.LOCK_EX)`
        await printed(sleeper, code)
        const attempt = `
import fcntl
g = open("/data/f", "r+")
try: fcntl.${call}(g, fcntl.LOCK_EX | fcntl.LOCK_NB); print("got it")
except OSError: print("held")`
        const fork = bench.engine.fork(sleeper, { sandboxIds: [newSandboxId()] })
        await expect(fork).rejects.toMatchObject({
          code: 'snapshot_refused',
          message: expect.stringMatching('lock for writing on /data/f'),
        })
        const { burrow: next } = await bench.engine.snapshot(sleeper, { leave: 'running' })
        expect(await printed(neighbour, attempt)).toBe('held')
        const { snapshot } = await bench.engine.snapshot(bench.hold(next!), { leave: 'gone' })
        expect(await printed(neighbour, attempt)).toBe('got it')
        const wake = () => bench.engine.restore(snapshot.id, { sandboxId: snapshot.sandboxId })
        await expect(wake()).rejects.toMatchObject({
          code: 'in_use',
          message: expect.stringMatching('/data/f'),
        })
        await printed(neighbour, 'g.close()')
        const woken = bench.hold(await wake())
        expect(await printed(woken, 'f.seek(0); print(f.read())')).toBe('x')
        expect(await printed(neighbour, attempt)).toBe('held')
        const { snapshot: again } = await bench.engine.snapshot(woken, { leave: 'gone' })
        await printed(neighbour, 'open("/data/f", "a").write("y")')
        const late = bench.engine.restore(again.id, { sandboxId: again.sandboxId })
        await expect(late).rejects.toMatchObject({
          code: 'conflict',
          message: expect.stringMatching('changed'),
        })
        const without = await bench.engine.restore(again.id, { sandboxId: again.sandboxId, volumes: [] })
        expect(await printed(bench.hold(without), 'print("awake")')).toBe('awake')
      },
    )

    test.each([
      [
        'a socket',
        'import socket; f = socket.socket(socket.AF_UNIX); f.bind("/data/s"); f.listen()',
        /socket at \/data\/s/,
      ],
      [
        'a deleted file with another name',
        'import os; f = open("/data/f", "w"); os.link("/data/f", "/data/g"); os.remove("/data/f")',
        /another name/,
      ],
    ])('%s on a volume is refused, and the burrow keeps running', async (_what, code, reason) => {
      const [sleeper, neighbour] = await pair()
      await printed(sleeper, code)
      const before = await printed(neighbour, 'import os; print(sorted(os.listdir("/data")))')
      const saving = bench.engine.snapshot(sleeper, { leave: 'gone' })
      await expect(saving).rejects.toMatchObject({
        code: 'snapshot_refused',
        message: expect.stringMatching(reason),
      })
      expect(await printed(neighbour, 'print(sorted(os.listdir("/data")))')).toBe(before)
      expect(await printed(sleeper, 'f.close(); print("on")')).toBe('on')
      const { burrow } = await bench.engine.snapshot(sleeper, { leave: 'running' })
      expect(await printed(bench.hold(burrow!), 'print("awake")')).toBe('awake')
    })
  })
}
