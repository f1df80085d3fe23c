import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { newSandboxId, type SnapshotId } from '@dormouse/contracts'
import type { Burrow, Engine } from '@dormouse/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isolatedFactory, layoutOfProcesses } from './isolated-factory.ts'

const factory = await isolatedFactory()
let engine: Engine
const burrows: Burrow[] = []
beforeAll(async () => {
  engine = await factory.open()
})
afterAll(async () => {
  for (const burrow of burrows) await burrow.destroy().catch(() => {})
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

/** Stands in for python3 at a boot, and so for the agent. It greets, and answers every request with an empty result. */
const FAKE = `#!/usr/bin/python3.13 -S
import os, socket, struct, sys
LINK = "/.dormouse/run"
def attempt(action):
    try: return str(action())
    except OSError as error: return error.strerror
listener = socket.socket(socket.AF_UNIX)
def serve():
    listener.bind(LINK + "/agent.sock")
    listener.listen()
DO
os.write(3, b"1")
while True:
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as stream:
        while len(head := stream.read(10)) == 10:
            length, kind, _, channel = struct.unpack(">IBBI", head)
            stream.read(length)
            answer = b'{"protocol":1}' if kind == 1 else b"{}"
            connection.sendall(struct.pack(">IBBI", len(answer), 1 if kind == 1 else 5, 0, channel) + answer)
`

/** A snapshot of files in which python3 is that program. */
async function saveFake(does: string): Promise<{ id: SnapshotId; boot: () => Promise<Burrow> }> {
  const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python', user: 'root' })
  try {
    const { guest } = burrow
    await guest.files.remove('/usr/bin/python3')
    await guest.files.write('/usr/bin/python3', FAKE.replace('DO', does), { mode: 0o755 })
    const { snapshot } = await engine.snapshot(burrow, { leave: 'running', kind: 'files' })
    const boot = async () => {
      const booted = await engine.restore(snapshot.id, { sandboxId: newSandboxId() })
      burrows.push(booted)
      return booted
    }
    return { id: snapshot.id, boot }
  } finally {
    await burrow.destroy()
  }
}

const runOf = (burrow: Burrow) => layoutOfProcesses(factory).burrow(burrow.id).run

describe('an agent that writes beside its socket before the host closes the directory', () => {
  test('leaves nothing on the host: neither names too deep for a path nor bytes', async () => {
    const { boot } = await saveFake(`
serve()
def deep():
    os.chdir(LINK)
    for n in range(20):
        os.mkdir("n" * 255); os.chdir("n" * 255)
tried = [attempt(deep), attempt(lambda: open(LINK + "/file", "wb").write(bytes(1 << 20))),
         attempt(lambda: os.link(LINK + "/agent.sock", LINK + "/other")), attempt(lambda: os.symlink("x", LINK + "/symlink"))]
open("/tried", "w").write("\\n".join(tried))`)
    const burrow = await boot()
    expect(readdirSync(runOf(burrow)).sort()).toEqual(['end', 'limits', 'pid'])
    const tried = readFileSync(join(layoutOfProcesses(factory).burrow(burrow.id).upper, 'tried'), 'utf8')
    expect(new Set(tried.split('\n'))).toEqual(new Set(['No space left on device']))
    await burrow.destroy()
    expect(existsSync(runOf(burrow))).toBe(false)
    expect(await factory.traces()).toEqual([])
  })

  test.each([
    [
      'a directory in the place of its socket',
      'listener.bind("/s"); listener.listen(); os.mkdir(LINK + "/agent.sock")',
    ],
    [
      'a symlink in the place of its socket',
      'listener.bind("/s"); listener.listen(); os.symlink("/s", LINK + "/agent.sock")',
    ],
    ['a socket of another name', 'listener.bind(LINK + "/x.sock"); listener.listen()'],
    ['nothing', 'pass'],
  ])('leaves %s: the start fails and everything is removed', async (_what, does) => {
    const { boot } = await saveFake(does)
    await expect(boot()).rejects.toMatchObject({ code: 'burrow_start_failed' })
    expect(await factory.traces()).toEqual([])
  })
})

test('a process that fills the directory as soon as it wakes finds no room, and the sandbox wakes', async () => {
  const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python', user: 'root' })
  burrows.push(burrow)
  await burrow.guest.processes.start({
    args: [
      'python3',
      '-c',
      `
import os
n = 0
while True:
    n += 1
    try: os.mkdir(f"/.dormouse/run/{n % 1000}"); open("/made", "a").write("x")
    except OSError: pass`,
    ],
  })
  const { snapshot } = await engine.snapshot(burrow, { leave: 'gone' })
  for (let wake = 0; wake < 3; wake++) {
    const woken = await engine.restore(snapshot.id, { sandboxId: newSandboxId() })
    burrows.push(woken)
    const { stdout } = await woken.guest.runs.run({
      code: 'import os; print(os.listdir("/.dormouse/run"), os.path.exists("/made"))',
    })
    expect(stdout.trim()).toBe("['agent.sock'] False")
    expect(readdirSync(runOf(woken)).sort()).toEqual(['end', 'limits', 'pid'])
    await woken.destroy()
  }
  expect(await factory.traces()).toEqual([])
})

test('files deeper than any path, with names of 255 bytes and no permissions, are saved and removed', async () => {
  const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python', user: 'root' })
  burrows.push(burrow)
  const { stderr } = await burrow.guest.runs.run({
    code: `
import os
os.chdir("/tmp")
for n in range(300):
    os.mkdir("n" * 255); os.chdir("n" * 255)
open("last", "w").close()
os.chmod(".", 0)
os.chdir("/")`,
  })
  expect(stderr).toBe('')
  const { snapshot, burrow: next } = await engine.snapshot(burrow, { leave: 'running' })
  await next?.destroy()
  await engine.deleteSnapshot(snapshot.id)
  expect(await factory.traces()).toEqual([])
})
