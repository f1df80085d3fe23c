import type { SandboxId } from '@dormouse/contracts'
import type { Sandbox } from '@dormouse/server'
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest'
import { runIn, type TestCore, type TestHost, testHost, wanted } from './test-core.ts'

let host: TestHost
let core: TestCore

beforeAll(async () => {
  host = await testHost()
  core = await host.open()
})
afterEach(async () => {
  vi.restoreAllMocks()
  for (const sandbox of [...core.sandboxes.all()]) await sandbox.delete()
  expect(await host.factory.traces()).toEqual([])
})
afterAll(async () => {
  await core?.[Symbol.asyncDispose]()
  await host?.cleanUp()
})

const run = (sandbox: Sandbox, code: string) => runIn(core, sandbox, code)
const get = (id: string) => core.sandboxes.get(id, core.caller)
const listed = () => core.sandboxes.list({ limit: 100 }, core.caller).items
const childrenOf = ({ id }: Sandbox) => listed().filter(({ forkedFrom }) => forkedFrom === id)
const statesOf = (parent: Sandbox) => childrenOf(parent).map(({ state }) => state)

async function parentWith(code: string): Promise<Sandbox> {
  const { sandbox } = await core.sandboxes.create(wanted(), core.caller)
  await run(sandbox, code)
  return sandbox
}

interface HeldBack {
  /** The child that is held back. */
  readonly id: Promise<SandboxId>
  release(): void
  fail(error: Error): void
}

/** The restore of the last child begins when the test says so, or fails. */
function holdLastChildBack(): HeldBack {
  const { engine } = core.sandboxes.deps
  let release = () => {}
  let fail = (_error: Error) => {}
  const released = new Promise<void>((resolve, reject) => {
    release = resolve
    fail = reject
  })
  released.catch(() => {})
  let found = (_id: SandboxId) => {}
  const id = new Promise<SandboxId>((resolve) => {
    found = resolve
  })
  const real = engine.fork.bind(engine)
  vi.spyOn(engine, 'fork').mockImplementationOnce((burrow, { limitRestore, ...options }) => {
    const last = options.sandboxIds.at(-1) as SandboxId
    found(last)
    return real(burrow, {
      ...options,
      limitRestore: async (sandboxId, restore) => {
        if (sandboxId === last) await released
        return limitRestore?.(sandboxId, restore) ?? restore()
      },
    })
  })
  return { id, release, fail }
}

test('a child serves calls while a sibling is not there yet; a call to that one waits for it alone', async () => {
  const parent = await parentWith('x = 7')
  const heldBack = holdLastChildBack()
  const forking = parent.fork({ count: 3, reseed: true })
  const last = await heldBack.id
  await expect
    .poll(() => statesOf(parent).sort(), { timeout: 30_000 })
    .toEqual(['creating', 'running', 'running'])
  const ready = childrenOf(parent).flatMap(({ id, state }) => (state === 'running' ? [get(id)] : []))
  for (const child of ready) expect(await run(child, 'x += 1; print(x)')).toBe('8\n')
  let hasAnswered = false
  const late = run(get(last), 'print(x)').finally(() => {
    hasAnswered = true
  })
  // The parent has its next transitions meanwhile: its old head stays for the child.
  await parent.standby({ tier: 'stored', cause: 'asked' })
  expect(await run(parent, 'x = "on"; print(x)')).toBe('on\n')
  await parent.standby({ tier: 'stored', cause: 'asked' })
  expect(hasAnswered).toBe(false)
  heldBack.release()
  expect(await late).toBe('7\n')
  const views = await forking
  expect(views.map(({ id }) => id).sort()).toEqual([last, ...ready.map(({ id }) => id)].sort())
  for (const child of ready) expect(await run(child, 'print(x)')).toBe('8\n')
  expect(await run(parent, 'print(x)')).toBe('on\n')
})

test('the parent of twenty answers as soon as it continues', async () => {
  const parent = await parentWith('x = 7')
  const heldBack = holdLastChildBack()
  const forking = parent.fork({ count: 20, reseed: true })
  await heldBack.id
  expect(await run(parent, 'print(x)')).toBe('7\n')
  expect(statesOf(parent)).toHaveLength(20)
  expect(statesOf(parent)).toContain('creating')
  heldBack.release()
  await forking
  expect(new Set(statesOf(parent))).toEqual(new Set(['running']))
  expect(parent.ledger({ limit: 10 }).items.map(({ event }) => event)).toContain('forked')
})

test('when one child fails none is left, not even one that has served calls', async () => {
  const parent = await parentWith('x = 7')
  const heldBack = holdLastChildBack()
  const forking = parent.fork({ count: 3, reseed: true })
  await expect
    .poll(() => statesOf(parent).sort(), { timeout: 30_000 })
    .toEqual(['creating', 'running', 'running'])
  const child = childrenOf(parent).find(({ state }) => state === 'running')
  expect(await run(get(child?.id ?? ''), 'x += 1; print(x)')).toBe('8\n')
  const waiting = run(get(await heldBack.id), 'print(x)')
  waiting.catch(() => {})
  heldBack.fail(new Error('made to fail'))
  await expect(forking).rejects.toThrow('made to fail')
  await expect(waiting).rejects.toThrow()
  expect(listed().map(({ id }) => id)).toEqual([parent.id])
  expect(() => get(child?.id ?? '')).toThrow('There is no sandbox')
  expect(await run(parent, 'print(x)')).toBe('7\n')
  expect(parent.ledger({ limit: 10 }).items.map(({ event }) => event)).not.toContain('forked')
})

test('a sleeping parent wakes, changes and sleeps again before its last child is there', async () => {
  const parent = await parentWith('x = 7')
  await parent.standby({ tier: 'stored', cause: 'asked' })
  const { engine } = core.sandboxes.deps
  const real = engine.restore.bind(engine)
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  vi.spyOn(engine, 'restore').mockImplementationOnce(async (id, options) => {
    await released
    return real(id, options)
  })
  const forking = parent.fork({ count: 2, reseed: true })
  await expect.poll(() => statesOf(parent).sort(), { timeout: 30_000 }).toEqual(['creating', 'running'])
  expect(await run(parent, 'x = 8; print(x)')).toBe('8\n')
  await parent.standby({ tier: 'stored', cause: 'asked' })
  release()
  for (const { id } of await forking) expect(await run(get(id), 'print(x)')).toBe('7\n')
  expect(await run(parent, 'print(x)')).toBe('8\n')
})
