import { setTimeout as sleep } from 'node:timers/promises'
import type { Sandbox } from '@dormouse/server'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { useHostTime } from './host-time.ts'
import { runIn, type TestCore, type TestHost, testHost, wanted } from './test-core.ts'

const HOUR_MS = 3_600_000

const time = useHostTime()
let host: TestHost
let core: TestCore

beforeAll(async () => {
  host = await testHost()
  core = await host.open()
})

// What a failed test leaves must not disturb the next one.
afterEach(async () => {
  for (const sandbox of [...core.sandboxes.all()]) await sandbox.delete()
})

afterAll(async () => {
  await core?.[Symbol.asyncDispose]()
  await host?.cleanUp()
})

const run = (sandbox: Sandbox, code: string) => runIn(core, sandbox, code)

/** For code that waits until it is there. */
const put = (sandbox: Sandbox, path: string) =>
  sandbox.use({ cause: 'run', what: 'a test' }, (guest) => guest.files.write(path, Buffer.alloc(0)))

async function create(change: Parameters<typeof wanted>[0] = {}) {
  const { sandbox } = await core.sandboxes.create(wanted(change), core.caller)
  return sandbox
}

/** Resolves when the first output of a run has arrived. */
async function printed(run: { events(): AsyncIterable<{ readonly type: string }> }): Promise<void> {
  for await (const { type } of run.events()) if (type === 'stdout') return
}

async function until(what: () => boolean, timeoutMs = 30_000): Promise<void> {
  const deadline = performance.now() + timeoutMs
  while (!what()) {
    if (performance.now() > deadline) throw new Error('it did not come to that')
    await sleep(50)
  }
}

/** Hours pass until then. What was just made still uses some CPU, which counts as work: one hour need not be enough. */
async function untilLater(what: () => boolean): Promise<void> {
  await until(() => {
    time.skip(HOUR_MS)
    return what()
  })
}

describe('sleep and wake', () => {
  test('a sandbox remembers through every depth of sleep, and the ledger tells', async () => {
    const sandbox = await create()
    await run(sandbox, 'x = [1, 2, 3]; where = id(x)')
    for (const tier of ['frozen', 'stored'] as const) {
      await sandbox.standby({ tier, cause: 'asked' })
      expect(sandbox.view()).toMatchObject({ state: 'standby', tier })
      expect(await run(sandbox, 'x.append(4); print(x, id(x) == where)')).toMatch(/ True\n$/)
      expect(sandbox.view()).toMatchObject({ state: 'running', tier: undefined })
    }
    const { items } = sandbox.ledger({ limit: 100 })
    expect(items.map(({ event, tier }) => (tier ? `${event} ${tier}` : event))).toEqual([
      'created',
      'slept frozen',
      'woke frozen',
      'slept stored',
      'woke stored',
    ])
    await sandbox.delete()
    expect(() => core.sandboxes.get(sandbox.id, core.caller)).toThrow(
      expect.objectContaining({ code: 'not_found' }),
    )
  })

  test('calls that come at once share one wake', async () => {
    const sandbox = await create()
    await run(sandbox, 'n = 0')
    await sandbox.standby({ tier: 'stored', cause: 'asked' })
    await Promise.all(Array.from({ length: 8 }, () => run(sandbox, 'n += 1')))
    expect(await run(sandbox, 'print(n)')).toBe('8\n')
    const wakes = sandbox.ledger({ limit: 100 }).items.filter(({ event }) => event === 'woke')
    expect(wakes).toHaveLength(1)
    await sandbox.delete()
  })

  test('standby in the middle of a run: the run continues after the wake, and its events have no gap', async () => {
    const sandbox = await create()
    const started = await core.services.runs.start(sandbox, {
      language: 'python',
      code: 'import time\nfor i in range(8):\n  print(i, flush=True)\n  time.sleep(0.25)',
    })
    await printed(started)
    await sandbox.standby({ tier: 'stored', cause: 'asked' })
    await sandbox.resume('resume')
    const events = []
    for await (const event of started.events()) events.push(event)
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index))
    const result = await started.result()
    expect(result).toMatchObject({ exitCode: 0, stdout: '0\n1\n2\n3\n4\n5\n6\n7\n' })
    await sandbox.delete()
  })

  test('idle: falls asleep by itself, first in memory, then on disk; work keeps it awake and `why` names it', async () => {
    const sandbox = await create({ idleTimeoutMs: HOUR_MS, storeAfterMs: HOUR_MS })
    const idle = await create({ idleTimeoutMs: HOUR_MS })
    const started = await core.services.runs.start(sandbox, {
      language: 'python',
      code: 'import os, time\nwhile not os.path.exists("/tmp/go"): time.sleep(0.05)',
    })
    await untilLater(() => idle.view().state === 'standby')
    const why = await sandbox.why()
    expect(why).toMatchObject({ state: 'running', work: [{ kind: 'run' }], sleepsAt: undefined })
    expect(why.summary).toContain(started.runId)
    await put(sandbox, '/tmp/go')
    await started.result()
    expect((await sandbox.why()).sleepsAt).toBeDefined()
    expect(sandbox.view().state).toBe('running')
    await untilLater(() => sandbox.view().tier === 'stored')
    expect(sandbox.ledger({ limit: 9 }).items).toMatchObject([
      { event: 'created' },
      { event: 'slept', tier: 'frozen', cause: 'idle' },
      { event: 'stored' },
    ])
    await sandbox.delete()
  })

  test('processes that use the CPU by themselves keep it awake', async () => {
    // More than the other one has: on a busy machine it may get no CPU for a second.
    const sandbox = await create({ idleTimeoutMs: 4_000 })
    await run(
      sandbox,
      'import os, threading\ndef burn():\n  while not os.path.exists("/tmp/go"): pass\nthreading.Thread(target=burn).start()',
    )
    await expect.poll(async () => (await sandbox.why()).work).toMatchObject([{ kind: 'cpu' }])
    const idle = await create({ idleTimeoutMs: 1_000 })
    await until(() => idle.view().state === 'standby')
    expect(sandbox.view().state).toBe('running')
    // In a round in which others had all of the CPU it does not count as busy.
    await expect.poll(async () => (await sandbox.why()).work).toMatchObject([{ kind: 'cpu' }])
    await put(sandbox, '/tmp/go')
    await until(() => sandbox.view().state === 'standby')
    await sandbox.delete()
  })

  test('ephemeral ones are gone after an hour without use, and expiry deletes also what sleeps', async () => {
    const brief = await create({ ephemeral: true })
    const asleep = await create({ expires: { afterMs: 2 * HOUR_MS, action: 'delete' } })
    await asleep.standby({ tier: 'stored', cause: 'asked' })
    await untilLater(() => [brief, asleep].every(({ id }) => core.sandboxes.find(id) === undefined))
    expect(await host.factory.traces()).toEqual([])
  })
})

test('a sandbox that is deleted in the middle of a run', async () => {
  const sandbox = await create()
  const started = await core.services.runs.start(sandbox, {
    language: 'python',
    code: 'print(1, flush=True); import time; time.sleep(60)',
  })
  const result = started.result()
  await Promise.all([expect(result).rejects.toMatchObject({ code: 'not_found' }), sandbox.delete()])
})

describe('the disk', () => {
  test('one that writes more than it may is put to standby, and wakes when it may have more', async () => {
    const limits = { ...wanted().limits, diskBytes: 32 * 1024 ** 2 }
    const sandbox = await create({ limits })
    // Not waited for: it may be put to standby before the run is over, and then the run waits with it.
    await core.services.runs.start(sandbox, {
      language: 'python',
      code: 'x = 1; open("/root/big", "wb").write(bytes(range(256)) * (48 << 12))',
    })
    await until(() => sandbox.view().state === 'standby')
    await expect(run(sandbox, 'print(x)')).rejects.toMatchObject({ code: 'limit_reached' })
    expect(sandbox.ledger({ limit: 9 }).items.at(-1)).toMatchObject({ event: 'slept', cause: 'disk' })
    await sandbox.update({ limits: { diskBytes: 512 * 1024 ** 2 } })
    expect(await run(sandbox, 'import os; os.unlink("/root/big"); print(x)')).toBe('1\n')
    await sandbox.delete()
  })
})

describe('fork, snapshot, rollback', () => {
  test('fork of one that runs and of one that sleeps', async () => {
    const sandbox = await create({ metadata: { team: 'blue' } })
    await run(sandbox, 'x = 41')
    const children = await sandbox.fork({ count: 2, reseed: true })
    await sandbox.standby({ tier: 'stored', cause: 'asked' })
    const more = await sandbox.fork({ count: 1, reseed: true })
    expect(sandbox.view().state).toBe('standby')
    for (const { id, forkedFrom, metadata } of [...children, ...more]) {
      expect({ forkedFrom, metadata }).toEqual({ forkedFrom: sandbox.id, metadata: { team: 'blue' } })
      const child = core.sandboxes.get(id, core.caller)
      expect(await run(child, 'x += 1; print(x)')).toBe('42\n')
      await child.delete()
    }
    expect(await run(sandbox, 'print(x)')).toBe('41\n')
    await sandbox.delete()
  })

  test('a fork in the middle of a run: the run continues in the parent and in the child', async () => {
    const sandbox = await create()
    const started = await core.services.runs.start(sandbox, {
      language: 'python',
      code: 'import time\nfor i in range(6):\n  print(i, flush=True)\n  time.sleep(0.25)',
    })
    await printed(started)
    const [view] = await sandbox.fork({ count: 1, reseed: true })
    const child = core.sandboxes.get(view?.id ?? '', core.caller)
    const [mine, its] = await Promise.all([
      started.result(),
      core.services.runs.get(child, started.runId).result(),
    ])
    expect(mine.stdout).toBe('0\n1\n2\n3\n4\n5\n')
    expect(its.stdout).toBe(mine.stdout)
    await Promise.all([sandbox.delete(), child.delete()])
  })

  test('snapshots have names, rollback goes back, awake or asleep', async () => {
    const sandbox = await create()
    await run(sandbox, 'x = "first"')
    const first = await sandbox.snapshot({ name: 'first', kind: 'full' })
    await run(sandbox, 'x = "second"; open("/root/second", "w").close()')
    await sandbox.rollback(first.id)
    expect(await run(sandbox, 'import os; print(x, os.path.exists("/root/second"))')).toBe('first False\n')
    await run(sandbox, 'x = "third"')
    await sandbox.standby({ tier: 'stored', cause: 'asked' })
    await sandbox.rollback(first.id)
    expect(sandbox.view().state).toBe('standby')
    expect(await run(sandbox, 'print(x)')).toBe('first\n')
    await core.sandboxes.deleteSnapshot(first.id, core.caller)
    await sandbox.delete()
    expect(core.sandboxes.listSnapshots({ limit: 10 }, core.caller).items).toEqual([])
    expect(await core.sandboxes.deps.engine.listSnapshots()).toEqual([])
  })
})

describe('two at once', () => {
  test('whatever comes together ends in a state that the table allows', async () => {
    for (let round = 0; round < 3; round += 1) {
      const sandbox = await create()
      await run(sandbox, 'x = 1')
      await sandbox.standby({ tier: 'stored', cause: 'asked' })
      // Settled from the start: a deletion ends it before the test waits for it.
      const running = Promise.allSettled([run(sandbox, 'x += 1')])
      const changes = await Promise.allSettled([
        sandbox.fork({ count: 1, reseed: false }),
        sandbox.standby({ tier: 'frozen', cause: 'asked' }),
        sandbox.standby({ tier: 'stored', cause: 'asked' }),
        sandbox.resume('resume'),
        ...(round === 2 ? [sandbox.delete()] : []),
      ])
      // A run that had begun waits with its sandbox.
      if (round < 2) await sandbox.resume('resume')
      const results = [...changes, ...(await running)]
      const fork = results[0]
      if (fork?.status === 'fulfilled') {
        for (const { id } of fork.value as { id: string }[])
          await core.sandboxes.get(id, core.caller).delete()
      }
      if (round === 2) expect(core.sandboxes.find(sandbox.id)).toBeUndefined()
      else {
        expect(results.filter(({ status }) => status === 'rejected')).toEqual([])
        expect(await run(sandbox, 'print(x)')).toBe('2\n')
        await sandbox.delete()
      }
    }
  })
})

describe('recovery', () => {
  test('a server that starts anew finds everything as it was, runs going on', async () => {
    const running = await create({ name: 'running' })
    const frozen = await create({ name: 'frozen' })
    const stored = await create({ name: 'stored' })
    for (const sandbox of [running, frozen, stored]) await run(sandbox, 'x = 7')
    await frozen.standby({ tier: 'frozen', cause: 'asked' })
    await stored.standby({ tier: 'stored', cause: 'asked' })
    const started = await core.services.runs.start(running, {
      language: 'python',
      code: 'import time\nfor i in range(10):\n  print(i, flush=True)\n  time.sleep(0.3)\nx = 8',
      idempotencyKey: 'only-once',
    })
    await printed(started)
    core = await core.restart()
    expect(core.recovery).toMatchObject({ running: 1, standby: 2, lost: 0 })
    expect(core.sandboxes.get('frozen', core.caller).view().tier).toBe('frozen')
    const again = core.sandboxes.get('running', core.caller)
    const result = await core.services.runs.get(again, started.runId).result()
    expect(result.stdout).toBe('0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n')
    for (const name of ['running', 'frozen', 'stored']) {
      const sandbox = core.sandboxes.get(name, core.caller)
      expect(await run(sandbox, 'print(x)')).toBe(name === 'running' ? '8\n' : '7\n')
      await sandbox.delete()
    }
  })

  test('one whose processes died comes back from its last snapshot and says since when things are lost', async () => {
    const sandbox = await create()
    await run(sandbox, 'x = "saved"')
    await sandbox.standby({ tier: 'stored', cause: 'asked' })
    await run(sandbox, 'x = "lost"; open("/root/f", "w").write("not lost")')
    const burrow = sandbox.burrow
    if (burrow === undefined) throw new Error('no burrow')
    await host.factory.killBurrow(burrow.id)
    await until(() => sandbox.view().state === 'standby')
    const { lostSince } = sandbox.view()
    expect(Date.parse(lostSince ?? '')).toBeLessThan(time.now())
    expect(await run(sandbox, 'print(x)')).toBe('saved\n')
    await sandbox.standby({ tier: 'stored', cause: 'asked' })
    expect(sandbox.view().lostSince).toBeUndefined()
    const { items } = core.sandboxes.listSnapshots({ sandboxId: sandbox.id, limit: 10 }, core.caller)
    const files = items.find(({ kind }) => kind === 'files')
    await sandbox.rollback(files?.id as never)
    expect(await run(sandbox, 'print(open("/root/f").read())')).toBe('not lost\n')
    await sandbox.delete()
  })
})
