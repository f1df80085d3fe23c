import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { ServerProcess } from './server-process.ts'

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start()
})
afterEach(() => server.clear())
afterAll(() => server?.cleanUp())

/** Python that writes /root/done with the seconds that have passed, once the time is over. */
const SECONDS = 8
const DONE =
  'import time; begin = time.time()\ndef done(*_): open("/root/done", "w").write(str(time.time() - begin))\n'
const inThread = (code: string) =>
  `import threading; threading.Thread(target=lambda: (${code}, done())).start()`
const WAITS = {
  sleep: inThread(`time.sleep(${SECONDS})`),
  event: inThread(`threading.Event().wait(${SECONDS})`),
  asyncio: `import asyncio; ${inThread(`asyncio.run(asyncio.sleep(${SECONDS}))`)}`,
  timerfd: `import os; fd = os.timerfd_create(time.CLOCK_MONOTONIC); os.timerfd_settime(fd, initial=${SECONDS}); ${inThread('os.read(fd, 8)')}`,
  itimer: `import signal; signal.signal(signal.SIGALRM, done); signal.setitimer(signal.ITIMER_REAL, ${SECONDS})`,
}
const COMMAND = `date +%s.%N > /root/begin; sleep ${SECONDS}; echo "$(date +%s.%N) - $(cat /root/begin)" > /root/done`

const policy = { idleTimeoutMs: 2_000, storeAfterMs: 0, wakeOnTimer: true }

async function create(name: string, code: string, change: object = {}): Promise<void> {
  await server.ok('/v1/sandboxes', { json: { name, ...policy, ...change } })
  await server.run(name, DONE + code)
}

/** A command that does not keep its sandbox awake. */
async function start(name: string, command: string): Promise<void> {
  await server.ok('/v1/sandboxes', { json: { name, ...policy } })
  await server.ok(`/v1/sandboxes/${name}/processes`, { json: { command, keepAwake: false } })
}

interface Entry {
  readonly event: string
  readonly cause: string
}

async function ledger(name: string): Promise<string[]> {
  const { items } = await server.ok(`/v1/sandboxes/${name}/ledger`)
  return items.map(({ event, cause }: Entry) => `${event} ${cause}`)
}

const until = (name: string, entries: readonly string[]) =>
  expect
    .poll(() => ledger(name), { timeout: 60_000, interval: 250 })
    .toEqual(expect.arrayContaining([...entries]))

/** Asleep, awake for a timer, asleep again. */
const ROUND = ['created asked', 'slept idle', 'woke timer', 'slept idle']

const asleep = (name: string) =>
  expect
    .poll(async () => (await server.ok(`/v1/sandboxes/${name}`)).state, { timeout: 30_000, interval: 200 })
    .toBe('standby')

/**
 * How long it took inside, by the wall clock. The file must be there already: the sandbox has slept since. If the time
 * asleep had not counted, or the wait had begun again, the code would still wait.
 */
async function secondsInside(name: string): Promise<number> {
  return Number(await server.run(name, 'print(eval(open("/root/done").read()))'))
}

/** Wakes a sandbox before its `sleep` is over. Returns how long the sleep then lasted, in milliseconds. */
async function restOfSleep(name: string): Promise<number> {
  await server.ok(`/v1/sandboxes/${name}`, { method: 'PATCH', json: { idleTimeoutMs: 0 } })
  await server.ok(`/v1/sandboxes/${name}/resume`, { method: 'POST' })
  const wokenAt = Date.now()
  const wait = 'import os, time\nwhile not os.path.exists("/root/end"): time.sleep(0.05)\n'
  return (
    Number(await server.run(name, `${wait}time.sleep(0.1); print(open("/root/end").read())`)) / 1e6 - wokenAt
  )
}

test('a sandbox that sleeps wakes for its timers, and sleeps again', { timeout: 120_000 }, async () => {
  await Promise.all([
    ...Object.entries(WAITS).map(([name, code]) => create(name, code)),
    start('command', COMMAND),
    start('early', `sleep ${SECONDS}; date +%s%N > /root/end`),
    create('frozen', WAITS.sleep, { storeAfterMs: 600_000 }),
    create('off', WAITS.sleep, { wakeOnTimer: false }),
    create('far', inThread('time.sleep(100)')),
    create('nothing', ''),
    create('polling', inThread('[time.sleep(0.2) for _ in range(1000)]')),
  ])
  const woken = [...Object.keys(WAITS), 'command', 'frozen']
  for (const name of ['early', ...woken, 'off', 'far', 'nothing', 'polling']) await asleep(name)
  // It had slept for at least the idle time-out. Begun again, it would last longer.
  const rest = restOfSleep('early')
  for (const name of ['off', 'nothing', 'polling'])
    expect(await server.ok(`/v1/sandboxes/${name}`), name).not.toHaveProperty('wakesAt')
  const { wakesAt, wakeOnTimer } = await server.ok('/v1/sandboxes/far')
  expect(wakeOnTimer).toBe(true)
  const why = await server.ok('/v1/sandboxes/far/why')
  expect(Math.abs(Date.parse(why.wakesAt) - Date.parse(wakesAt))).toBeLessThan(100)
  expect(why.summary).toMatch(/^Asleep, on disk only\. A timer wakes it in \d+(?:\.\d)? (?:s|min)\.$/)
  for (const name of woken) {
    await expect.poll(() => ledger(name), { timeout: 60_000, interval: 250 }).toEqual(ROUND)
    expect(await secondsInside(name), name).toBeGreaterThan(SECONDS - 0.2)
  }
  expect(await server.ok('/v1/sandboxes/sleep')).not.toHaveProperty('wakesAt')
  expect(await rest).toBeLessThan(SECONDS * 1_000 - policy.idleTimeoutMs / 2)
  for (const name of ['off', 'nothing', 'polling'])
    expect(await ledger(name), name).toEqual(['created asked', 'slept idle'])
})

test('a timer that was due while the server was dead wakes the sandbox', { timeout: 90_000 }, async () => {
  await Promise.all([create('thread', WAITS.sleep), start('command', COMMAND), create('late', WAITS.itimer)])
  const names = ['thread', 'command', 'late']
  await Promise.all(names.map(asleep))
  const views = await Promise.all(names.map((name) => server.ok(`/v1/sandboxes/${name}`)))
  await server.kill()
  await sleep(Math.max(...views.map(({ wakesAt }) => Date.parse(wakesAt))) - Date.now())
  await server.begin()
  for (const name of names) {
    await until(name, ['woke timer'])
    await expect.poll(() => ledger(name), { timeout: 30_000 }).toEqual(ROUND)
    expect(await secondsInside(name)).toBeGreaterThan(SECONDS - 0.2)
  }
})

test('update switches the policy, and a sandbox without it forgets its timer', async () => {
  await create('box', WAITS.sleep, { wakeOnTimer: false })
  const change = (wakeOnTimer: boolean) =>
    server.ok('/v1/sandboxes/box', { method: 'PATCH', json: { wakeOnTimer } })
  expect(await change(true)).toMatchObject({ wakeOnTimer: true })
  const put = await server.ok('/v1/sandboxes/box/standby', { json: { tier: 'frozen' } })
  expect(put).toMatchObject({ state: 'standby', wakesAt: expect.any(String) })
  const off = await change(false)
  expect(off).toMatchObject({ state: 'standby', wakeOnTimer: false })
  expect(off).not.toHaveProperty('wakesAt')
  const { status, body } = await server.call('/v1/sandboxes', { json: { wakeOnTimer: 'yes' } })
  expect({ status, code: body.error?.code ?? body.code }).toEqual({ status: 400, code: 'invalid_argument' })
})
