import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { newSandboxId } from '@dormouse/contracts'
import type { Burrow, Engine } from '@dormouse/engine'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'

const factory = await linuxFactory()
// What a test leaves that fails must not be in the way of others.
afterEach(async () => {
  await factory.dispose()
  await using engine = await factory.open()
  for (const { id } of await engine.listSnapshots()) await engine.deleteSnapshot(id)
})
afterAll(() => factory.cleanUp())

const program = fileURLToPath(new URL('take-snapshots.mjs', import.meta.url))

/** Lets it begin a snapshot and kills it; answers what it had acknowledged by then. */
async function killAfter(delayMs: number): Promise<string[]> {
  const child = spawn(process.execPath, [program, testDataDir, factory.stateDir], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines: string[] = []
  const reading = (async () => {
    for await (const line of createInterface({ input: child.stdout })) lines.push(line)
  })()
  while (lines.length === 0 && child.exitCode === null) await sleep(1)
  await sleep(delayMs)
  child.kill('SIGKILL')
  await once(child, 'exit')
  await reading
  return lines.slice(1)
}

const SET_UP = `
import hashlib, os, subprocess, threading, time
data = bytearray(os.urandom(64 << 20)); digest = hashlib.sha256(data).digest(); address = id(data)
open("/root/file", "w").write("before"); os.unlink("/etc/issue")
child = subprocess.Popen(["cat"], stdin=-1, stdout=-1, bufsize=0)
ticks = 0
def tick():
    global ticks
    while True: ticks += 1; time.sleep(0.01)
threading.Thread(target=tick, daemon=True).start()`

const LOOK = `
before = ticks; time.sleep(0.1)
child.stdin.write(b"x\\n")
open("/root/file", "a").write("+")
print(hashlib.sha256(data).digest() == digest, id(data) == address, ticks > before, child.stdout.readline(),
      open("/root/file").read(), os.path.exists("/etc/issue"))`

async function expectWhole(burrow: Burrow): Promise<void> {
  const run = await burrow.guest.runs.run({ code: LOOK })
  expect(run.error?.traceback ?? run.stdout).toBe("True True True b'x\\n' before+ False\n")
}

/** What the next server has: the burrow, or a snapshot of it. */
async function findSandbox(engine: Engine, acknowledged: readonly string[]): Promise<Burrow> {
  const { burrows, lost } = await engine.adoptBurrows()
  const snapshots = await engine.listSnapshots()
  expect(burrows.length + snapshots.length).toBe(1)
  const [burrow] = burrows
  if (burrow !== undefined) {
    expect(acknowledged).toEqual([])
    return burrow
  }
  const snapshotId = snapshots[0]!.id
  for (const { end } of lost) expect(end).toEqual({ reason: 'stored', snapshotId })
  if (acknowledged.length > 0) expect(acknowledged).toEqual([snapshotId])
  return engine.restore(snapshotId, { sandboxId: newSandboxId() })
}

describe('server killed with SIGKILL while it takes a snapshot', () => {
  // From before the dump, over the dump, the making of the images and the sync, to the removal of the burrow.
  test.each([0, 5, 15, 30, 60, 90, 120, 160, 200, 250, 300, 400, 600, 1500])(
    'after %i ms: the next engine has the sandbox, whole, awake or asleep',
    async (delayMs) => {
      const first = await factory.open()
      const made = await first.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
      expect(await made.guest.runs.run({ code: SET_UP })).toMatchObject({ exitCode: 0 })
      await first[Symbol.asyncDispose]()

      const acknowledged = await killAfter(delayMs)
      const engine = await factory.open()
      const burrow = await findSandbox(engine, acknowledged)
      await expectWhole(burrow)
      const { snapshot, burrow: next } = await engine.snapshot(burrow, { leave: 'running' })
      expect((await next!.guest.runs.run({ code: 'print(id(data) == address)' })).stdout).toBe('True\n')
      await next!.destroy()
      for (const { id } of await engine.listSnapshots()) await engine.deleteSnapshot(id)
      expect(snapshot.id).toBeDefined()
      await expect.poll(() => factory.traces()).toEqual([])
      // Layers are collected by the next deletion where a spare burrow was just being made.
      await expect.poll(() => readdir(factory.layout.snapshotsDir)).toEqual([])
      await engine[Symbol.asyncDispose]()
      expect(await factory.dumperCgroups()).toEqual([])
    },
  )
})
