import { setImmediate as nextTurn } from 'node:timers/promises'
import { newSandboxId } from '@dormouse/contracts'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { FakeClock, serverClock } from '../clock/testing/fake-clock.ts'
import type { DiskWatch } from './disk-watch.ts'
import { FrozenMemory } from './frozen-memory.ts'
import { IdleWatch } from './idle-watch.ts'
import type { Sandbox } from './sandbox.ts'
import { Sandboxes } from './sandboxes.ts'

const NOON = Date.UTC(2026, 0, 2, 12)

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

function start() {
  const host = new FakeClock(NOON)
  const clock = serverClock(host, undefined)
  const sandboxes = new Sandboxes()
  let rounds = 0
  const watch = new IdleWatch({
    sandboxes,
    disk: { round: async () => {} } as DiskWatch,
    frozenMemory: new FrozenMemory(1),
    freeMemoryBytes: async () => {
      rounds += 1
      return 1
    },
    lowMemoryBytes: 0,
    isEnding: () => false,
    clock,
    log: console as never,
  })
  const id = newSandboxId()
  const sandbox = {
    ...{ id, ageMs: 0, stateMs: 0, work: { idleMs: 0 }, deps: { clock }, checkpoints: {} },
    ...{ pendingWrites: { isEmpty: true }, lock: { isWriting: true } },
    row: { id, state: 'standby', tier: 'stored' },
  } as unknown as Sandbox & { row: { state: string; wakesAt?: number } }
  const pass = async (ms: number) => {
    host.pass(ms)
    const before = rounds
    await vi.advanceTimersByTimeAsync(ms)
    return rounds - before
  }
  return { watch, sandboxes, sandbox, pass }
}

test('it looks twice a second while a sandbox is awake, and rests while all sleep', async () => {
  const { watch, sandboxes, sandbox, pass } = start()
  Object.assign(sandbox.row, { state: 'suspending' })
  sandboxes.add(sandbox)
  expect(await pass(4_000)).toBe(8)
  Object.assign(sandbox.row, { state: 'standby' })
  sandboxes.changed(sandbox)
  await pass(1_000)
  expect(await pass(4_000)).toBe(2)
  watch[Symbol.dispose]()
  expect(await pass(4_000)).toBe(0)
})

test('a change ends its rest, and so does what is due', async () => {
  const { watch, sandboxes, sandbox, pass } = start()
  await pass(3_000)
  sandboxes.add(sandbox)
  expect(await pass(500)).toBe(1)
  Object.assign(sandbox.row, { wakesAt: NOON + 60_000 })
  sandboxes.changed(sandbox)
  expect(await pass(500)).toBe(1)
  await pass(55_000)
  Object.assign(sandbox.row, { wakesAt: NOON + 60_000 })
  sandboxes.changed(sandbox)
  expect(await pass(500)).toBe(1)
  // Due in half a second.
  expect(await pass(500)).toBe(1)
  watch[Symbol.dispose]()
})

test('a sandbox that used much CPU in a time with a wake or a call in it sleeps after a sample of its own', async () => {
  const { watch, sandboxes, sandbox, pass } = start()
  const samples = [
    { share: 0.5, isOwn: false },
    { share: 0.5, isOwn: true },
    { share: 0.001, isOwn: false },
  ]
  const seen: string[] = []
  const work = {
    ...{ idleMs: 2_000, isBusy: false },
    begin: (kind: string, what: string) => {
      seen.push(`${kind}: ${what}`)
      work.isBusy = true
      return { [Symbol.dispose]: () => Object.assign(work, { isBusy: false }) }
    },
  }
  Object.assign(sandbox, {
    work,
    memory: {},
    checkpoints: {},
    lock: {},
    background: { check: async () => {} },
  })
  Object.assign(sandbox, {
    sample: async () => samples.shift(),
    standby: async () => seen.push('sleeps'),
  })
  Object.assign(sandbox.row, { state: 'running', idleTimeoutMs: 1_000, tier: undefined })
  sandboxes.add(sandbox)
  const round = async () => {
    await pass(500)
    // A round lets others have their turn, by a timer that is not faked.
    for (let turn = 0; turn < 5; turn += 1) await nextTurn()
  }
  await round()
  expect(seen).toEqual([])
  await round()
  expect(seen).toEqual(['cpu: processes that use 50 % of a CPU'])
  await round()
  expect(seen).toEqual(['cpu: processes that use 50 % of a CPU', 'sleeps'])
  watch[Symbol.dispose]()
})
