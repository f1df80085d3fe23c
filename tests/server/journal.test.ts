import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { RunEvent, RunResult } from '@dormouse/contracts'
import type { Sandbox } from '@dormouse/server'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type TestCore, type TestHost, testHost, wanted } from './test-core.ts'

const MIB = 1024 ** 2
const RUN_BYTES = 4 * MIB
const SANDBOX_BYTES = 8 * MIB
/** What a WAL may have grown to before it is moved into the database, and pages that are kept for later. */
const SLACK_BYTES = 16 * MIB

let host: TestHost
let core: TestCore

beforeAll(async () => {
  host = await testHost()
  core = await host.open({
    journal: { keepRuns: 100, keepDays: 30, runBytes: RUN_BYTES, sandboxBytes: SANDBOX_BYTES },
  })
})
afterEach(async () => {
  for (const sandbox of [...core.sandboxes.all()]) await sandbox.delete()
})
afterAll(async () => {
  await core?.[Symbol.asyncDispose]()
  await host?.cleanUp()
})

const create = async (limits = {}) => {
  const request = wanted()
  const { sandbox } = await core.sandboxes.create(
    { ...request, limits: { ...request.limits, ...limits } },
    core.caller,
  )
  return sandbox
}
const start = (sandbox: Sandbox, code: string) =>
  core.services.runs.start(sandbox, { code, language: 'python' })

const print = (mib: number) => `
print("BEGIN")
for _ in range(${mib * 16}): print("x" * 65535)
print("END")`

async function journalFileBytes(): Promise<number> {
  const sizes = ['journal.db', 'journal.db-wal'].map((name) =>
    stat(join(host.factory.stateDir, 'server', name)),
  )
  return (await Promise.all(sizes)).reduce((sum, { size }) => sum + size, 0)
}

async function collect(events: AsyncIterable<RunEvent>): Promise<RunEvent[]> {
  const all: RunEvent[] = []
  for await (const event of events) all.push(event)
  return all
}

const said = (events: readonly RunEvent[]) =>
  events.map((event) => (event.type === 'stdout' ? event.data : '')).join('')
const marksOf = (events: readonly RunEvent[]) => events.filter((event) => event.type === 'truncated')

/** What holds for every journal: no number is missing but for those that a mark stands for, and `exit` is last. */
function expectWhole(events: readonly RunEvent[]): void {
  let seq = -1
  for (const event of events) {
    expect(event.seq).toBe(seq + (event.type === 'truncated' ? event.events : 1))
    seq = event.seq
  }
  expect(events.filter(({ type }) => type === 'exit')).toHaveLength(1)
  expect(events.at(-1)?.type).toBe('exit')
}

describe('a run that says more than is kept', () => {
  test('keeps its beginning and its end, with a mark for what is missing', async () => {
    const sandbox = await create()
    const run = await start(sandbox, print(48))
    const result = await run.result()
    expect(result.exitCode).toBe(0)
    expect(result.stdout.startsWith('BEGIN\n')).toBe(true)
    expect(result.stdout.endsWith('END\n')).toBe(true)
    const events = await collect(run.events())
    expectWhole(events)
    expect(events[0]?.type).toBe('start')
    expect(said(events).startsWith('BEGIN\n')).toBe(true)
    expect(said(events).endsWith('END\n')).toBe(true)
    const missing = marksOf(events).reduce((sum, mark) => sum + (mark as { bytes: number }).bytes, 0)
    const total = said(events).length + missing
    expect(total).toBeGreaterThan(48 * MIB)
    expect(total).toBeLessThan(49 * MIB)
    expect(said(events).length).toBeLessThanOrEqual(RUN_BYTES)
    expect(said(events).length).toBeGreaterThan(RUN_BYTES / 2)
    expect(await journalFileBytes()).toBeLessThan(RUN_BYTES + SLACK_BYTES)
  })

  test('has its error and its result, however much it said before', async () => {
    const sandbox = await create()
    const failed = await (await start(sandbox, `${print(8)}\n1/0`)).result()
    expect(failed).toMatchObject({ exitCode: 1, error: { name: 'ZeroDivisionError' } })
    // Longer than all that is kept of an end.
    const page = `type("Page", (), {"_repr_html_": lambda self: "r" * ${2 * MIB}})()`
    const long = await (await start(sandbox, `${print(8)}\n${page}`)).result()
    expect(long.exitCode).toBe(0)
    expect(String(long.results[0]?.['text/html'])).toHaveLength(2 * MIB)
  })

  test('is seen whole by a reader that keeps up', async () => {
    const sandbox = await create()
    const code = `
import time
for i in range(24):
    print(str(i).rjust(262143, "."), flush=True)
    time.sleep(0.05)`
    const run = await start(sandbox, code)
    const live = await collect(run.events())
    expectWhole(live)
    expect(marksOf(live)).toEqual([])
    expect(said(live).length).toBe(24 * 262144)
    // Those who come later have to do with what is kept.
    const later = await collect(run.events())
    expectWhole(later)
    expect(marksOf(later)).toHaveLength(1)
    // And so has one that lost its connection in the middle of what is not.
    const mark = marksOf(later)[0] as RunEvent & { type: 'truncated' }
    const rest = await collect(run.events({ after: mark.seq - 2 }))
    expect(rest[0]).toMatchObject({ seq: mark.seq, type: 'truncated', events: 2 })
    expect(rest.at(-1)?.type).toBe('exit')
  })

  test('is taken up by the next server with what its agent holds', async () => {
    const sandbox = await create()
    const code = `${print(12)}
import os, time
open("/tmp/said", "w").close()
while not os.path.exists("/tmp/go"): time.sleep(0.02)
print("LATER")`
    const run = await start(sandbox, code)
    const exists = (path: string) =>
      core.sandboxes.get(sandbox.id, core.caller).use({ cause: 'file', what: 'a test' }, (guest) =>
        guest.files.stat(path).then(
          () => true,
          () => false,
        ),
      )
    await expect.poll(() => exists('/tmp/said')).toBe(true)
    core = await core.restart()
    const again = core.sandboxes.get(sandbox.id, core.caller)
    await again.use({ cause: 'file', what: 'a test' }, (guest) => guest.files.write('/tmp/go', ''))
    const events = await collect(core.services.runs.get(again, run.runId).events())
    expectWhole(events)
    expect(said(events).startsWith('BEGIN\n')).toBe(true)
    expect(said(events).endsWith('END\nLATER\n')).toBe(true)
    expect(marksOf(events).length).toBeGreaterThan(0)
  })

  test('continues in the child of a fork, which gets a part of it', async () => {
    const sandbox = await create()
    const code = `${print(3)}
import os, time
while not os.path.exists("/tmp/go"): time.sleep(0.02)
print("LATER")`
    const run = await start(sandbox, code)
    await expect.poll(() => core.sandboxes.deps.journal.bytesOf(sandbox.id)).toBeGreaterThan(2 * MIB)
    const [view] = await sandbox.fork({ count: 1, reseed: true })
    const child = core.sandboxes.get(view?.id as string, core.caller)
    expect(core.sandboxes.deps.journal.bytesOf(child.id)).toBeLessThan(MIB)
    for (const one of [sandbox, child])
      await one.use({ cause: 'file', what: 'a test' }, (guest) => guest.files.write('/tmp/go', ''))
    for (const one of [sandbox, child]) {
      const events = await collect(core.services.runs.get(one, run.runId).events())
      expectWhole(events)
      expect(said(events).startsWith('BEGIN\n')).toBe(true)
      expect(said(events).endsWith('END\nLATER\n')).toBe(true)
    }
  })
})

describe('a sandbox whose runs said more than is kept', () => {
  test('loses the output of its oldest runs first, and none of its runs', async () => {
    const sandbox = await create()
    const runs: string[] = []
    const results: RunResult[] = []
    for (let n = 0; n < 6; n += 1) {
      const run = await start(sandbox, `${print(2)}\nraise SystemExit(${n})`)
      runs.push(run.runId)
      results.push(await run.result())
    }
    expect(results.map(({ truncated }) => truncated)).toEqual(results.map(() => undefined))
    const read = (n: number) => core.services.runs.get(sandbox, runs[n] as string)
    await expect
      .poll(async () => (await read(0).result()).truncated?.stdoutBytes ?? 0)
      .toBeGreaterThan(2 * MIB)
    expect(await read(0).result()).toMatchObject({ runId: runs[0], exitCode: 0 })
    expect(read(1).view()).toMatchObject({ state: 'finished', exitCode: 1 })
    const stripped = await collect(read(0).events())
    expectWhole(stripped)
    expect(stripped.map(({ type }) => type)).toEqual(['start', 'truncated', 'exit'])
    expect((await read(5).result()).stdout).toHaveLength(2 * MIB + 10)
    expect(core.services.runs.list(sandbox, { limit: 100 }).items).toHaveLength(6)
    expect(core.sandboxes.deps.journal.bytesOf(sandbox.id)).toBeLessThanOrEqual(SANDBOX_BYTES)
  })

  test('gives the space back when it is deleted', async () => {
    const sandboxes = await Promise.all([create(), create(), create(), create()])
    for (const sandbox of sandboxes)
      for (let n = 0; n < 3; n += 1) await (await start(sandbox, print(3))).result()
    expect(await journalFileBytes()).toBeGreaterThan(24 * MIB)
    for (const sandbox of sandboxes) await sandbox.delete()
    await expect.poll(journalFileBytes).toBeLessThan(SLACK_BYTES)
  })

  test('has it counted in the disk quota of its key', async () => {
    const { view } = core.access.create({ name: 'small', scopes: ['run'], quotas: { diskBytes: 2 * MIB } })
    const caller = { keyId: view.id, isAdmin: false }
    const { sandbox } = await core.sandboxes.create(wanted(), caller)
    await core.sandboxes.create(wanted(), caller)
    await (await start(sandbox, print(3))).result()
    await expect(core.sandboxes.create(wanted(), caller)).rejects.toMatchObject({
      code: 'limit_reached',
      details: { quota: 'diskBytes' },
    })
  })

  test('has it counted in its own disk limit, of which it takes a quarter at most', async () => {
    const sandbox = await create({ diskBytes: 24 * MIB })
    for (let n = 0; n < 6; n += 1) await (await start(sandbox, print(3))).result()
    const journalBytes = core.sandboxes.deps.journal.bytesOf(sandbox.id)
    expect(journalBytes).toBeLessThanOrEqual(6 * MIB)
    expect(journalBytes).toBeGreaterThan(2 * MIB)
    expect(sandbox.view().state).toBe('running')
    // Not until its end: the sandbox may be put to standby before.
    await start(sandbox, `_ = open("/root/f", "wb").write(b"x" * ${22 * MIB})`)
    await expect.poll(() => sandbox.view().state, { timeout: 40_000 }).toBe('standby')
    const { items } = sandbox.ledger({ limit: 100 })
    expect(items.some(({ cause }) => cause === 'disk')).toBe(true)
  })
})
