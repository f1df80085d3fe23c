import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { powerCut } from './power-cut.ts'
import { ServerProcess } from './server-process.ts'

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start({ jobs: { maxTasks: 2 } })
})
afterAll(() => server?.cleanUp())
afterEach(async () => {
  // What a failed test leaves must not take the places of the next one.
  for (const { id, finishedAt } of (await server.ok('/v1/jobs')).items) {
    await server.ok(`/v1/jobs/${id}/cancel`, { json: {} })
    if (finishedAt === undefined) await events(id)
  }
  await server.clear()
})

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Json = any

const create = (json: object): Promise<Json> => server.ok('/v1/jobs', { json })
const get = (id: string): Promise<Json> => server.ok(`/v1/jobs/${id}`)
const sandboxes = async () => (await server.ok('/v1/sandboxes')).items as Json[]

/** All events of a job until its end. */
async function events(id: string, query = ''): Promise<Json[]> {
  const response = await fetch(`${server.url}/v1/jobs/${id}/events${query}`, {
    headers: { authorization: `Bearer ${server.key}` },
    signal: AbortSignal.timeout(120_000),
  })
  const lines = (await response.text()).split('\n').filter((line) => line !== '')
  return lines.map((line) => JSON.parse(line))
}

async function tasks(id: string, query = ''): Promise<Json[]> {
  const items: Json[] = []
  for (let after: number | undefined = -1; after !== undefined; ) {
    const page: Json = await server.ok(`/v1/jobs/${id}/tasks?results=true&limit=500&after=${after}${query}`)
    items.push(...page.items)
    after = page.nextAfter
  }
  return items
}

const until = (id: string, state: string) =>
  expect.poll(async () => (await get(id)).state, { timeout: 60_000, interval: 50 }).toBe(state)

test('a job of 2,000 inputs keeps each result at its index, and every task ends once', async () => {
  const inputs = Array.from({ length: 2_000 }, (_, index) => index)
  const { id } = await create({ code: 'item * item', inputs, sandboxPer: 'worker', concurrency: 2 })
  const seen = await events(id)
  expect(seen.map(({ seq }) => seq)).toEqual(Array.from({ length: 2_001 }, (_, index) => index + 1))
  const tasksOfAll = { queued: 0, running: 0, succeeded: 2_000, failed: 0, cancelled: 0 }
  expect(seen.at(-1).job).toMatchObject({ state: 'finished', tasks: tasksOfAll })
  expect(new Set(seen.slice(0, -1).map(({ task }) => task.index)).size).toBe(2_000)
  const all = await tasks(id)
  expect(all.map(({ index }) => index)).toEqual(inputs)
  for (const { index, state, attempts, result } of all)
    expect([state, attempts, result.text]).toEqual(['succeeded', 1, String(index ** 2)])
  expect(await sandboxes()).toEqual([])
}, 120_000)

describe('a task', () => {
  test('has a sandbox of its own, which starts with the state that a sandbox had at the request', async () => {
    const parent = await server.ok('/v1/sandboxes', { json: { name: 'parent', idleTimeoutMs: 0 } })
    await server.run('parent', 'seen = ["parent"]')
    const { id, origin } = await create({
      code: 'seen.append(item); seen',
      inputs: ['a', 'b', 'c'],
      sandbox: 'parent',
    })
    expect(origin.sandboxId).toBe(parent.id)
    await server.run('parent', 'seen = "changed"')
    await events(id)
    const texts = (await tasks(id)).map(({ result }) => result.text)
    expect(texts).toEqual(["['parent', 'a']", "['parent', 'b']", "['parent', 'c']"])
    // With its end, nothing of the job is left: the head of the parent no longer belongs to it.
    expect((await sandboxes()).map((one) => one.id)).toEqual([parent.id])
    const { items } = await server.ok('/v1/snapshots')
    expect(items.filter(({ name }: Json) => name !== undefined)).toEqual([])
  })

  test('starts from a snapshot, which stays', async () => {
    await server.ok('/v1/sandboxes', { json: { name: 'maker', idleTimeoutMs: 0 } })
    await server.run('maker', 'base = 40')
    const { id: snapshotId } = await server.ok('/v1/sandboxes/maker/snapshots', { json: { name: 'loaded' } })
    await server.call('/v1/sandboxes/maker', { method: 'DELETE' })
    for (const sandboxPer of ['task', 'worker']) {
      const { id, origin } = await create({
        ...{ code: 'base += item; base', inputs: [1, 2], concurrency: 1 },
        ...{ snapshot: snapshotId, sandboxPer },
      })
      expect(origin).toEqual({ snapshotId })
      await events(id)
      // A worker keeps what the task before it changed.
      const second = sandboxPer === 'task' ? '42' : '43'
      expect((await tasks(id)).map(({ result }) => result.text)).toEqual(['41', second])
    }
    expect(await sandboxes()).toEqual([])
    expect((await server.ok('/v1/snapshots')).items).toMatchObject([{ id: snapshotId }])
  })

  test('may be a command, which finds its input and its numbers in the environment', async () => {
    const command = 'echo "$item,$DORMOUSE_TASK_INDEX,$DORMOUSE_TASK_ATTEMPT"; test "$item" != "it\'s"'
    const { id } = await create({ command, inputs: [{ a: [1] }, "it's"] })
    await events(id)
    expect(await tasks(id)).toMatchObject([
      { state: 'succeeded', result: { stdout: '{"a":[1]},0,1\n', exitCode: 0 } },
      { state: 'failed', reason: 'failed', message: 'exit code 1', result: { stdout: "it's,1,1\n" } },
    ])
  })

  test('that fails runs again, after a pause, as often as asked', async () => {
    const code = [
      'import os',
      'attempt = int(os.environ["DORMOUSE_TASK_ATTEMPT"])',
      'if attempt <= item: raise ValueError(attempt)',
      'attempt',
    ].join('\n')
    const [retries, backoffMs] = [2, 20]
    const retry = { retries, backoffMs }
    const { id } = await create({ code, inputs: [0, 1, 2, 3], retry })
    await events(id)
    expect(await tasks(id)).toMatchObject([
      { state: 'succeeded', attempts: 1, result: { text: '1' } },
      { state: 'succeeded', attempts: 2, result: { text: '2' } },
      { state: 'succeeded', attempts: 3, result: { text: '3' } },
      { state: 'failed', attempts: 3, reason: 'failed', message: 'ValueError: 3' },
    ])
  })

  test('that takes too long, or too much memory, fails and does not disturb the others', async () => {
    const code = 'import time\nif item == 1: time.sleep(600)\nif item == 2: x = bytearray(10**9)\nitem'
    const { id } = await create({
      ...{ code, inputs: [0, 1, 2, 3], timeoutMs: 8_000, sandboxPer: 'worker' },
      limits: { memoryBytes: 256 * 2 ** 20 },
    })
    await events(id)
    const all = await tasks(id)
    expect(all.map(({ state }) => state)).toEqual(['succeeded', 'failed', 'failed', 'succeeded'])
    expect(all[1]).toMatchObject({ reason: 'timed_out' })
    expect(['out_of_memory', 'failed']).toContain(all[2].reason)
    // Its sandbox is gone.
    expect(all[2].message).not.toContain('dormouse update')
    expect(await sandboxes()).toEqual([])
  })

  test('cannot begin when there is no such template, and says so', async () => {
    const { id } = await create({ code: '1', inputs: [1], template: 'missing' })
    await events(id)
    expect(await tasks(id)).toMatchObject([{ state: 'failed', reason: 'refused' }])
  })
})

test('a cancelled job stops its tasks, starts no others, keeps results, and leaves no sandbox', async () => {
  const code = 'import time\nif item > 0: time.sleep(600)\nitem'
  const { id } = await create({ code, inputs: [0, 1, 2, 3, 4], concurrency: 2 })
  await expect
    .poll(async () => (await get(id)).tasks, { timeout: 60_000 })
    .toMatchObject({ succeeded: 1, running: 2 })
  expect((await server.call(`/v1/jobs/${id}`, { method: 'DELETE' })).status).toBe(409)
  expect(await server.ok(`/v1/jobs/${id}/cancel`, { json: {} })).toMatchObject({ state: 'cancelling' })
  await until(id, 'cancelled')
  expect((await get(id)).tasks).toEqual({ queued: 0, running: 0, succeeded: 1, failed: 0, cancelled: 4 })
  expect(await sandboxes()).toEqual([])
  expect(await events(id, '?after=4')).toMatchObject([
    { seq: 5, type: 'task' },
    { seq: 6, type: 'end' },
  ])
  expect((await server.call(`/v1/jobs/${id}`, { method: 'DELETE' })).status).toBe(204)
  expect((await server.call(`/v1/jobs/${id}`)).status).toBe(404)
})

test('tasks of a job with a higher priority start first', async () => {
  const slow = await create({ code: 'import time; time.sleep(2)', inputs: [1, 2], concurrency: 2 })
  await expect.poll(async () => (await get(slow.id)).tasks.running, { timeout: 60_000 }).toBe(2)
  const low = await create({ code: '1', inputs: [1, 2], priority: -1 })
  const high = await create({ code: '1', inputs: [1, 2], priority: 5 })
  await Promise.all([events(low.id), events(high.id)])
  const starts = async (id: string) => (await tasks(id)).map(({ startedAt }) => Date.parse(startedAt))
  expect(Math.max(...(await starts(high.id)))).toBeLessThanOrEqual(Math.min(...(await starts(low.id))))
})

test('a request that is repeated with its key starts nothing', async () => {
  const request = { code: 'item', inputs: [1], idempotencyKey: 'once' }
  const first = await create(request)
  const again = await server.call('/v1/jobs', { json: request })
  expect([again.status, again.body.id]).toEqual([200, first.id])
  const other = await server.call('/v1/jobs', { json: { ...request, inputs: [2] } })
  expect(other.body.error.code).toBe('idempotency_mismatch')
  await events(first.id)
})

test.each(['task', 'worker'])(
  'kill -9 of the server, a sandbox per %s: each task ran, and its result is recorded once',
  async (sandboxPer) => {
    await server.ok('/v1/volumes', { json: { name: 'outside' } })
    const count = 24
    const code = [
      'import os, time',
      // One file for each attempt that began: what happened outside of the server's records.
      'open(f"/data/{item}.{os.environ[\'DORMOUSE_TASK_ATTEMPT\']}", "x").close()',
      'time.sleep(0.2)',
      'item',
    ].join('\n')
    const volumes = [{ volume: 'outside', path: '/data' }]
    const inputs = Array.from({ length: count }, (_, index) => index)
    const { id } = await create({ code, inputs, concurrency: 2, volumes, sandboxPer })
    const early: Json[] = []
    for (const wanted of [3, 9, 15]) {
      await expect
        .poll(async () => (await get(id)).tasks.succeeded, { interval: 20, timeout: 30_000 })
        .toBeGreaterThanOrEqual(wanted)
      early.push(...(await tasks(id, '&state=succeeded')))
      await server.kill()
      await server.begin()
    }
    const all = await events(id)
    expect(all.at(-1).job).toMatchObject({ state: 'finished', tasks: { succeeded: count, failed: 0 } })
    const ended = all.slice(0, -1)
    expect(ended.map(({ seq }) => seq)).toEqual(inputs.map((index) => index + 1))
    expect(ended.map(({ task }) => task.index).sort((a, b) => a - b)).toEqual(inputs)
    const final = await tasks(id)
    expect(final.map(({ result }) => result.text)).toEqual(inputs.map(String))
    // A result that was recorded once is never another one later.
    for (const task of early) expect(final[task.index]).toEqual(task)
    await server.ok('/v1/sandboxes', { json: { name: 'reader', volumes } })
    const files: string[] = JSON.parse(
      await server.run('reader', 'import os, json; print(json.dumps(os.listdir("/data")))'),
    )
    for (const { index, attempts } of final) {
      const began = files
        .filter((file) => file.startsWith(`${index}.`))
        .map((file) => Number(file.split('.')[1]))
      expect(began.length).toBeGreaterThanOrEqual(1)
      // The recorded attempt began, and no attempt began after it.
      expect(Math.max(...began)).toBe(attempts)
    }
  },
  120_000,
)

/** Says when an attempt began, outside of the records of the server, and does not end before it may. */
const WAITS = [
  'import os, time',
  'open(f"/data/{item}.{os.environ[\'DORMOUSE_TASK_ATTEMPT\']}", "x").close()',
  'while not os.path.exists("/data/go"): time.sleep(0.05)',
  'f"{item} in attempt {os.environ[\'DORMOUSE_TASK_ATTEMPT\']}"',
].join('\n')

describe.each(['task', 'worker'])('a task whose sandbox is lost, with a sandbox per %s', (sandboxPer) => {
  /** A job of four tasks, two of which run until they may end. */
  async function begin(): Promise<{ id: string; running: Json[]; go: () => Promise<unknown> }> {
    await server.ok('/v1/volumes', { json: { name: 'shared' } })
    const volumes = [{ volume: 'shared', path: '/data' }]
    const inputs = [0, 1, 2, 3]
    const { id } = await create({ code: WAITS, inputs, concurrency: 2, volumes, sandboxPer })
    await expect.poll(async () => (await began()).sort(), { timeout: 60_000 }).toEqual(['/0.1', '/1.1'])
    const running = await tasks(id, '&state=running')
    const go = () => server.ok('/v1/volumes/shared/files?path=/go', { method: 'PUT', body: 'go' })
    return { id, running, go }
  }

  const began = async (): Promise<string[]> =>
    (await server.ok('/v1/volumes/shared/files/list?path=/')).items
      .map(({ path }: Json) => path)
      .filter((path: string) => /\.\d$/.test(path))

  /** The attempts of the tasks that were lost, and every result once. */
  async function expectResults(id: string, attempts: number[]): Promise<void> {
    const all = await events(id)
    const indexes = all.slice(0, -1).map(({ task }) => task.index)
    expect(indexes.sort()).toEqual([0, 1, 2, 3])
    const found = await tasks(id)
    expect(found.map((task) => task.attempts)).toEqual(attempts)
    const texts = attempts.map((attempt, index) => `'${index} in attempt ${attempt}'`)
    expect(found.map(({ state, result }) => [state, result.text])).toEqual(
      texts.map((text) => ['succeeded', text]),
    )
    expect(await sandboxes()).toEqual([])
  }

  test('by a power cut is executed again, and the result of that attempt is recorded', async () => {
    const { id, go } = await begin()
    await server.kill()
    await powerCut(server.factory)
    await server.begin()
    // Those that have not run yet come first.
    await expect.poll(began, { timeout: 30_000 }).toEqual(expect.arrayContaining(['/2.1', '/3.1']))
    await go()
    await expectResults(id, [2, 2, 1, 1])
  }, 120_000)

  test('because someone deletes it is executed again, the others are not', async () => {
    const { id, running, go } = await begin()
    await server.ok(`/v1/sandboxes/${running[1].sandboxId}`, { method: 'DELETE' })
    await expect.poll(began, { timeout: 30_000 }).toContain('/2.1')
    await go()
    await expectResults(id, [1, 2, 1, 1])
  }, 120_000)
})
