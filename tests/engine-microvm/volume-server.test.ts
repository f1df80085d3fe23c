import { chown, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { UID_BASE } from '../../packages/engine-linux/src/template/shifted-root.ts'
import { VolumeBench } from './volume-bench.ts'

test('files of a volume can be made, read, changed and removed, with the owners of sandboxes', async () => {
  await using bench = await VolumeBench.open()
  const code = `
import os
os.chdir(volume)
os.makedirs("a/b"); open("a/b/f", "w").write("hello")
os.rename("a/b/f", "a/g"); os.link("a/g", "h"); os.symlink("h", "s"); os.mkfifo("p")
os.chmod("a/g", 0o640); os.chown("a/g", 1000, 1000); os.utime("a/g", (1, 2)); os.truncate("a/g", 4)
with open("a/g", "ab") as f: f.write(b"!"); f.flush(); os.fsync(f.fileno())
print(open("s").read(), sorted(os.listdir(".")), os.stat("h").st_nlink, os.readlink("s"))
s = os.stat("a/g"); print(s.st_uid, oct(s.st_mode), s.st_size, os.statvfs(".").f_bsize > 0)
os.rmdir("a/b")
for i in range(500): open(f"a/{i}", "w").close()
print(len(os.listdir("a")))
try: os.mknod("d", 0o600 | 0o020000, os.makedev(1, 3))
except OSError as error: print(error.strerror)
data = os.urandom(3_000_000); open("big", "wb").write(data); print(open("big", "rb").read() == data)
os.chdir("/")`
  expect(await bench.python(code)).toBe(
    ["hell! ['a', 'h', 'p', 's'] 2 h", '1000 0o100640 5 True', '501', 'Operation not permitted', 'True'].join(
      '\n',
    ),
  )
  const found = await stat(join(bench.volume, 'h'))
  expect([found.uid, found.mtimeMs > 2_000]).toEqual([UID_BASE + 1000, true])
})

test('the server sees nothing but the volume, and has no privileges over the host', async () => {
  await using bench = await VolumeBench.open()
  const proc = (name: string) => readFile(`/proc/${bench.serverPid}/${name}`, 'utf8')
  expect((await proc('mountinfo')).trim().split('\n')).toHaveLength(1)
  expect(await proc('uid_map')).toMatch(/^\s*0\s+100000\s+65536\s*$/)
  const status = await proc('status')
  expect(status).toMatch(/^NoNewPrivs:\s1$/m)
  // CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER and FSETID.
  expect(status).toMatch(/^CapBnd:\s0*1f$/m)
  expect(status).toMatch(/^NSpid:.*\s1$/m)
})

test('a read-only volume cannot be changed, whatever the guest asks for', async () => {
  await using bench = await VolumeBench.open({ readOnly: true })
  await writeFile(join(bench.volume, 'f'), 'x')
  await chown(join(bench.volume, 'f'), UID_BASE, UID_BASE)
  const attempts = [
    'open(volume + "/f", "a").write("y")',
    'os.mkdir(volume + "/d")',
    'os.remove(volume + "/f")',
    'os.chmod(volume + "/f", 0)',
  ]
  for (const attempt of attempts)
    expect(await bench.python(`import os\n${attempt}`), attempt).toMatch(/Read-only/)
  expect(await bench.python('print(open(volume + "/f").read())')).toBe('x')
})

test('writes of others are seen at once, also through open files', async () => {
  await using bench = await VolumeBench.open()
  await bench.python('open(volume + "/f", "w").write("one"); f = open(volume + "/f"); print(f.read())')
  await writeFile(join(bench.volume, 'f'), 'three')
  expect(await bench.python('f.seek(0); print(f.read(), open(volume + "/f").read())')).toBe('three three')
  await rm(join(bench.volume, 'f'))
  expect(await bench.python('import os; print(os.path.exists(volume + "/f"), f.seek(0), f.read())')).toBe(
    'False 0 three',
  )
})

test('open files continue in the next server: by path, or with their content if they were deleted', async () => {
  await using bench = await VolumeBench.open()
  const code = `
import os, mmap
os.mkdir(volume + "/d"); os.chdir(volume + "/d")
def make(name, text): open(name, "w").write(text); return open(name, "r+")
kept, replaced, removed, moved = [make(n, n) for n in ("kept", "replaced", "removed", "moved")]
deleted = make("deleted", "deleted"); other = open("deleted", "a"); os.remove("deleted")
file = make("mapped", "0" * 20_000); mapped = mmap.mmap(file.fileno(), 0); mapped[10_000] = 65; file.close()
print(kept.read(2))`
  expect(await bench.python(code)).toBe('ke')
  const state = await bench.sleep()
  const at = (name: string) => join(bench.volume, 'd', name)
  await writeFile(at('kept'), 'kept and longer')
  await writeFile(at('new'), 'new')
  await chown(at('new'), UID_BASE, UID_BASE)
  await rename(at('new'), at('replaced'))
  await rm(at('removed'))
  await writeFile(at('mapped'), '9', { flag: 'r+' })
  const waiting = bench.python(
    'print(kept.read(), replaced.read(), repr(removed.read()), mapped[0], mapped[10_000])',
  )
  await bench.serve({ state })
  expect(await waiting).toBe("pt and longer new '' 57 65")
  const check = `
other.write("+"); other.flush()
removed.write("again"); removed.flush(); removed.seek(0)
print(deleted.read(), removed.read(), os.fstat(deleted.fileno()).st_nlink, sorted(os.listdir(".")))
kept.write("!"); kept.close()`
  expect(await bench.python(check)).toBe("deleted+ again 0 ['kept', 'mapped', 'moved', 'replaced']")
  expect(await readFile(at('kept'), 'utf8')).toBe('kept and longer!')
  const again = await bench.sleep()
  await bench.serve({ state: again })
  expect(await bench.python('deleted.seek(0); print(deleted.read()); os.chdir("/")')).toBe('deleted+')
})

test('a program on a volume continues unchanged when others replace it while it sleeps', async () => {
  await using bench = await VolumeBench.open()
  const code = `
import ctypes, glob, os, shutil, subprocess
shutil.copy("/usr/bin/bash", volume + "/shell")
shell = subprocess.Popen([volume + "/shell"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def ask(line):
    shell.stdin.write(line + "\\n"); shell.stdin.flush()
    return shell.stdout.readline().strip()
print(ask("x=1; echo $((x + 1))"))`
  expect(await bench.python(code)).toBe('2')
  const state = await bench.sleep()
  await bench.serve({ state })
  expect(await bench.python('print(ask("echo $((x + 2)) $(type -t if)"))')).toBe('3 keyword')
  const again = await bench.sleep()
  await writeFile(join(bench.volume, 'new'), 'no program'.repeat(200_000))
  await rename(join(bench.volume, 'new'), join(bench.volume, 'shell'))
  await bench.serve({ state: again })
  expect(await bench.python('print(ask("echo $((x + 3)) $(type -t for)"), shell.kill())')).toBe(
    '4 keyword None',
  )
  expect(await bench.python('print(os.stat(volume + "/shell").st_size)')).toBe('2000000')
})

test('no write is lost or done twice when connections break at any moment', async () => {
  await using bench = await VolumeBench.open()
  const writing = bench.python(`
import os
with open(volume + "/log", "ab", buffering=0) as log:
    for i in range(3000):
        log.write(b"%d\\n" % i)
        if i % 10 == 0: os.mkdir(f"{volume}/{i}")
        if i % 10 == 5: os.rename(f"{volume}/{i - 5}", f"{volume}/done-{i}")
print("done")`)
  let isOver = false
  void writing.then(() => {
    isOver = true
  })
  let joins = 0
  for (; !isOver; joins++) {
    // Every third time the server is another process, too, with the state of the last one.
    if (joins % 3 === 2) await bench.serve({ state: await bench.sleep() })
    else await bench.join()
    await new Promise((resolve) => setTimeout(resolve, joins % 5))
  }
  expect(await writing).toBe('done')
  expect(joins).toBeGreaterThan(10)
  const lines = (await readFile(join(bench.volume, 'log'), 'utf8')).trim().split('\n')
  expect(lines).toEqual(Array.from({ length: 3000 }, (_, index) => String(index)))
  expect((await readdir(bench.volume)).filter((name) => name.startsWith('done-'))).toHaveLength(300)
})

test('locks hold against other processes, over a sleep, and a server cannot start without them', async () => {
  await using bench = await VolumeBench.open()
  const code = `
import fcntl
f = open(volume + "/f", "w+"); g = open(volume + "/g", "w+")
fcntl.flock(f, fcntl.LOCK_EX); fcntl.lockf(g, fcntl.LOCK_EX, 10, 5)
h = open(volume + "/f")
try: fcntl.flock(h, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError as error: print(type(error).__name__)`
  expect(await bench.python(code)).toBe('BlockingIOError')
  const attempt = async (name: string, call: string) => {
    const program = `import fcntl, sys\nf = open(sys.argv[1], "r+")\ntry: fcntl.${call}\nexcept OSError: print("held")\nelse: print("free")`
    const { execFileSync } = await import('node:child_process')
    return String(execFileSync('python3', ['-c', program, join(bench.volume, name)])).trim()
  }
  const [whole, part] = [
    'flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)',
    'lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 5)',
  ]
  const held = async () => [await attempt('f', whole), await attempt('g', part)]
  expect(await held()).toEqual(['held', 'held'])
  const state = await bench.sleep()
  expect(String(state.subarray(0, state.indexOf('\n\n')))).toMatch(
    /^dormouse-volume 1\nlock FLOCK WRITE 0 EOF \d+ 0 \d+ 66\nlock OFDLCK WRITE 5 14 \d+ 0 \d+ 67$/,
  )
  expect(await held()).toEqual(['free', 'free'])
  await bench.serve({ state })
  expect(await held()).toEqual(['held', 'held'])
  await bench.python('f.close(); g.close(); h.close()')
  expect(await held()).toEqual(['free', 'free'])
})
