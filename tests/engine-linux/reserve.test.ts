import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type BurrowId, newSandboxId, newVolumeId } from '@dormouse/contracts'
import type { Burrow, CreateBurrow, Gate } from '@dormouse/engine'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, afterEach, beforeEach, expect, test } from 'vitest'
import { BurrowCgroup } from '../../packages/engine-linux/src/cgroup/burrow-cgroup.ts'
import { findHierarchies } from '../../packages/engine-linux/src/cgroup/find-hierarchies.ts'
import { testDataDir } from '../test-data-dir.ts'
import { linuxFactory } from './linux-factory.ts'

const factory = await linuxFactory()
const hierarchies = await findHierarchies()
const { layout } = factory
const program = fileURLToPath(new URL('create-one.mjs', import.meta.url))
afterAll(() => factory.cleanUp())

let engine: LinuxEngine
let burrows: Burrow[]
let closing: (() => void)[]
beforeEach(async () => {
  engine = await LinuxEngine.open({ dataDir: testDataDir, stateDir: factory.stateDir })
  burrows = []
  closing = []
})
afterEach(async () => {
  for (const close of closing) close()
  await Promise.all(burrows.map((burrow) => burrow.destroy()))
  await engine[Symbol.asyncDispose]()
  expect(await readdir(layout.burrowsDir)).toEqual([])
  expect(await readdir(layout.sparesDir)).toEqual([])
  expect(await factory.traces()).toEqual([])
})

async function create(fields: Partial<CreateBurrow> = {}): Promise<Burrow> {
  const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python', ...fields })
  burrows.push(burrow)
  return burrow
}

async function python({ guest }: Burrow, code: string): Promise<string> {
  const { stdout, error } = await guest.runs.run({ code })
  return error?.traceback ?? stdout
}

/** Spares have a mark. Those that are restored and wait have a record as well, and are frozen. */
async function findWaiting(): Promise<BurrowId[]> {
  const marked = (await readdir(layout.sparesDir)) as BurrowId[]
  const restored = marked.map((id) => layout.burrow(id)).filter(({ record }) => existsSync(record))
  const frozen = await Promise.all(
    restored.map(({ cgroup }) => new BurrowCgroup(hierarchies, cgroup).isFrozen().catch(() => false)),
  )
  return restored.map(({ id }) => id).filter((_, index) => frozen[index])
}

async function untilWaiting(count: number): Promise<BurrowId[]> {
  await expect.poll(findWaiting, { timeout: 90_000, interval: 50 }).toHaveLength(count)
  // Freezing it is the last of what takes time.
  await sleep(100)
  return findWaiting()
}

test('what was created last is restored ahead for the next, one for each of the last two', async () => {
  await create()
  const first = await untilWaiting(1)
  const second = await create()
  expect(first).toContain(second.id)
  const both = await untilWaiting(2)
  const [third, fourth] = [await create(), await create()]
  expect(new Set([third.id, fourth.id])).toEqual(new Set(both))
})

test('after a burst of creates the reserve is as large as the burst', async () => {
  for (let n = 0; n < 3; n += 1) await create()
  const ready = await untilWaiting(3)
  const next = await Promise.all(ready.map(() => create()))
  expect(new Set(next.map(({ id }) => id))).toEqual(new Set(ready))
})

test('one can be expected before the first', async () => {
  await engine.expectCreate('python')
  const [id] = await untilWaiting(1)
  expect((await create()).id).toBe(id)
  await expect(engine.expectCreate('nobody-made-it')).rejects.toMatchObject({ code: 'template_not_found' })
})

test('it is whose it is said to be: name, limits, environment, seeds, clocks', async () => {
  await create()
  await untilWaiting(1)
  await create()
  await untilWaiting(2)
  const limits = { memoryBytes: 300 << 20, cpus: 0.5, pids: 77 }
  const [one, other] = [await create({ limits, env: { COLOUR: 'red' } }), await create()]
  expect(one.limits).toMatchObject(limits)
  const who =
    'import os, socket; print(socket.gethostname(), os.environ["DORMOUSE_SANDBOX_ID"], os.environ.get("COLOUR"))'
  expect(await python(one, who)).toBe(`${one.sandboxId} ${one.sandboxId} red\n`)
  expect(await python(other, who)).toBe(`${other.sandboxId} ${other.sandboxId} None\n`)
  expect(await python(one, 'x = bytearray(400 << 20)')).toMatch(/MemoryError|memory/)
  const draw = 'import random, numpy; print(random.random(), numpy.random.rand())'
  expect(await python(one, draw)).not.toBe(await python(other, draw))
  expect(
    Math.abs(Number(await python(one, 'import time; print(time.time())')) - Date.now() / 1000),
  ).toBeLessThan(10)
  expect(Math.abs(one.createdAt.getTime() - Date.now())).toBeLessThan(30_000)
})

test('it is saved, woken and forked like any other', async () => {
  await create()
  const [id] = await untilWaiting(1)
  const claimed = await create()
  expect(claimed.id).toBe(id)
  await python(claimed, 'x = [1]; address = id(x)')
  const { snapshot } = await engine.snapshot(claimed, { leave: 'gone' })
  const { sandboxId } = claimed
  const woken = await engine.restore(snapshot.id, { sandboxId })
  burrows.push(woken)
  expect(await python(woken, 'print(x, id(x) == address)')).toBe('[1] True\n')
  const fork = await engine.fork(woken, { sandboxIds: [newSandboxId()] })
  burrows.push(fork.parent, ...fork.children)
  expect(await python(fork.children[0]!, 'import socket; print(x, socket.gethostname())')).toBe(
    `[1] ${fork.children[0]?.sandboxId}\n`,
  )
})

test('one with volumes, or as a user, is right as well', async () => {
  await create()
  await untilWaiting(1)
  const volumeId = newVolumeId()
  await engine.createVolume(volumeId)
  const mounted = await create({ volumes: [{ volumeId, path: '/data', readOnly: false }] })
  expect(await python(mounted, 'print(open("/data/x", "w").write("12"))')).toBe('2\n')
  expect(await findWaiting()).toHaveLength(1)
  const asUser = await create({ user: 'user' })
  expect(await python(asUser, 'import getpass, os; print(getpass.getuser(), os.getcwd())')).toBe(
    'user /home/user\n',
  )
  await expect(create({ user: 'nobody-knows' })).rejects.toMatchObject({ code: expect.any(String) })
  await mounted.destroy()
  await engine.deleteVolume(volumeId)
})

const CONNECT = `
import socket
try: print(socket.create_connection(("192.0.2.1", 80), 20).recv(9))
except OSError as error: print(type(error).__name__)`

test('its gate is open before a create claims it, and is closed if none does', async () => {
  const before = await create()
  await serve(await before.openGate())
  const [id] = await untilWaiting(1)
  const asked = await create()
  expect(asked.id).toBe(id)
  await serve(await asked.openGate())
  expect(await python(asked, CONNECT)).toBe("b'hello'\n")
  const both = await untilWaiting(2)
  const unasked = await create()
  expect(both).toContain(unasked.id)
  // Taken by the kernel, and given up with the gate; the next one finds none.
  expect(await python(unasked, CONNECT)).toMatch(/^ConnectionRe(fused|set)Error\n$/)
  expect(await python(unasked, CONNECT)).toBe('ConnectionRefusedError\n')
  await serve(await unasked.openGate())
  expect(await python(unasked, CONNECT)).toBe("b'hello'\n")
})

/** Greets every connection that comes out, until the burrow ends. */
async function serve(gate: Gate): Promise<void> {
  const server = createServer((socket) => socket.end('hello')).listen({ fd: gate.tcp })
  await once(server, 'listening')
  closing.push(() => {
    gate.close()
    server.close()
    closeSync(gate.dns)
  })
}

test('one that has died meanwhile is never given out', async () => {
  await create()
  const [id] = await untilWaiting(1)
  await factory.killBurrow(id!)
  const next = await create()
  expect(next.id).not.toBe(id)
  expect(await python(next, 'print(1)')).toBe('1\n')
})

test('a snapshot that a template was prepared as is restored ahead as well, and gone with the snapshot', async () => {
  const source = await create()
  await python(source, 'open("/srv/mark", "w").write("made")')
  await engine.forgetTemplate('python')
  const { snapshot } = await engine.snapshot(source, { leave: 'gone' })
  const restore = async () => {
    const burrow = await engine.restore(snapshot.id, { sandboxId: newSandboxId(), reason: 'create' })
    burrows.push(burrow)
    return burrow
  }
  await restore()
  const [id] = await untilWaiting(1)
  const claimed = await restore()
  expect(claimed.id).toBe(id)
  expect(await python(claimed, 'import socket; print(open("/srv/mark").read(), socket.gethostname())')).toBe(
    `made ${claimed.sandboxId}\n`,
  )
  await untilWaiting(2)
  await engine.deleteSnapshot(snapshot.id)
  expect(await findWaiting()).toEqual([])
  // Those that live stand on their own links.
  expect(await python(claimed, 'print(open("/srv/mark").read())')).toBe('made\n')
})

test('one that does not answer keeps others from being restored ahead for a while only', async () => {
  const source = await create()
  await engine.forgetTemplate('python')
  // What is restored from here has a kernel that is stopped, and never says that it has imported anything.
  const { exitCode } = await source.guest.runs.run({ code: 'kill -STOP 3', language: 'bash' })
  expect(exitCode).toBe(0)
  const { snapshot } = await engine.snapshot(source, { leave: 'gone' })
  await create()
  // The last is filled first.
  burrows.push(await engine.restore(snapshot.id, { sandboxId: newSandboxId(), reason: 'create' }))
  await expect.poll(findWaiting, { timeout: 60_000, interval: 100 }).toHaveLength(1)
  await engine.deleteSnapshot(snapshot.id)
  expect(await findWaiting()).toHaveLength(1)
})

test('none is left of a template that is forgotten, until it is asked for again', async () => {
  await create()
  await untilWaiting(1)
  await engine.forgetTemplate('python')
  expect(await findWaiting()).toEqual([])
  await create()
  await untilWaiting(1)
})

test('those of a server that was killed are removed by the next', async () => {
  const sandboxId = newSandboxId()
  const child = spawn(process.execPath, [program, testDataDir, factory.stateDir, sandboxId], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    await once(child.stdout, 'data')
    await untilWaiting(1)
  } finally {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  const adopted = await engine.adoptBurrows()
  burrows.push(...adopted.burrows)
  expect(adopted.burrows.map((burrow) => burrow.sandboxId)).toEqual([sandboxId])
  expect(adopted.lost).toEqual([])
  expect(await findWaiting()).toEqual([])
  expect(await readdir(layout.burrowsDir)).toEqual(adopted.burrows.map(({ id }) => id))
})
