import { DormouseError } from '@dormouse/contracts'
import type { Engine } from '@dormouse/engine'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { type TestCore, type TestHost, testHost, wanted } from './test-core.ts'

let host: TestHost
let core: TestCore

beforeAll(async () => {
  host = await testHost()
  core = await host.open()
})
afterEach(async () => {
  vi.restoreAllMocks()
  for (const sandbox of [...core.sandboxes.all()]) await sandbox.delete()
  for (const { id } of core.sandboxes.listSnapshots({ limit: 100 }, core.caller).items)
    await core.sandboxes.deleteSnapshot(id, core.caller)
  expect(await host.factory.traces()).toEqual([])
})
afterAll(async () => {
  await core?.[Symbol.asyncDispose]()
  await host?.cleanUp()
})

const NO_SPACE = { code: 'no_space' }
const noSpace = () => new DormouseError('no_space', 'The disk is full.')

const engine = () => core.sandboxes.deps.engine
const sandbox = () => core.sandboxes.get('one', core.caller)

async function create(): Promise<void> {
  await core.sandboxes.create(wanted({ name: 'one' }), core.caller)
}

async function run(code: string): Promise<string> {
  const started = await core.services.runs.start(sandbox(), { code, language: 'python' })
  const { stdout, stderr, exitCode } = await started.result()
  if (exitCode !== 0) throw new Error(stderr)
  return stdout.trim()
}

const set = (value: string) => run(`x = "${value}"; open("/root/f", "w").write("${value}")`)
const get = () => run('print(globals().get("x"), open("/root/f").read())')

/** From now on nothing can be written down, until what this answers is called. */
function fillDisk(): () => void {
  const { db } = core.sandboxes.deps
  const refuse = () => {
    throw noSpace()
  }
  const spies = [
    vi.spyOn(db, 'transaction').mockImplementation(refuse),
    vi.spyOn(db, 'transactionWithoutSync').mockImplementation(refuse),
  ]
  return () => {
    for (const spy of spies) spy.mockRestore()
  }
}

/** The disk is full from the moment at which the engine has done this. */
function fillDiskAfter(method: 'createBurrow' | 'snapshot' | 'restore'): () => void {
  let makeRoom = () => {}
  const target = engine()
  const real = target[method].bind(target) as (...args: unknown[]) => Promise<unknown>
  const spy = vi.spyOn(target, method)
  spy.mockImplementationOnce((async (...args: unknown[]) => {
    const result = await real(...args)
    makeRoom = fillDisk()
    return result
  }) as never)
  return () => {
    makeRoom()
    spy.mockRestore()
  }
}

/** The disk is full from the moment at which the parent of a fork continues. */
function fillDiskWhenParentGoesOn(): () => void {
  let makeRoom = () => {}
  const target = engine()
  const real = target.fork.bind(target)
  const spy = vi.spyOn(target, 'fork').mockImplementationOnce((burrow, { onParent, ...options }) =>
    real(burrow, {
      ...options,
      onParent: (parent) => {
        makeRoom = fillDisk()
        onParent?.(parent)
      },
    }),
  )
  return () => {
    makeRoom()
    spy.mockRestore()
  }
}

interface Case {
  /** What it is like before, and what is done to it. */
  readonly title: string
  readonly before?: 'frozen' | 'stored'
  readonly fill: () => () => void
  readonly act: () => Promise<unknown>
}

const cases: readonly Case[] = [
  {
    title: 'a standby in memory',
    fill: () => fillDiskAfter('snapshot'),
    act: () => sandbox().standby({ tier: 'frozen', cause: 'asked' }),
  },
  {
    title: 'a standby on disk',
    fill: () => fillDiskAfter('snapshot'),
    act: () => sandbox().standby({ tier: 'stored', cause: 'asked' }),
  },
  {
    title: 'a step from memory to disk',
    before: 'frozen',
    fill: () => fillDisk(),
    act: () => sandbox().standby({ tier: 'stored', cause: 'asked' }),
  },
  {
    title: 'a wake',
    before: 'stored',
    fill: () => fillDiskAfter('restore'),
    act: () => sandbox().resume('resume'),
  },
  {
    title: 'a snapshot',
    fill: () => fillDiskAfter('snapshot'),
    act: () => sandbox().snapshot({ name: 'kept', kind: 'full' }),
  },
  {
    title: 'a snapshot of files',
    fill: () => fillDiskAfter('snapshot'),
    act: () => sandbox().snapshot({ name: 'kept', kind: 'files' }),
  },
  { title: 'a fork', fill: fillDiskWhenParentGoesOn, act: () => sandbox().fork({ count: 1, reseed: true }) },
]

describe('when the outcome cannot be written down', () => {
  test.each(cases)('of $title: calls say why until there is room, and nothing is lost', async (given) => {
    await create()
    await set('early')
    await sandbox().standby({ tier: 'stored', cause: 'asked' })
    await set('late')
    if (given.before !== undefined) await sandbox().standby({ tier: given.before, cause: 'asked' })
    const makeRoom = given.fill()
    await expect(given.act()).rejects.toThrow()
    await expect(sandbox().resume('resume')).rejects.toMatchObject(NO_SPACE)
    await expect(sandbox().use({ cause: 'file', what: 'test' }, async () => 0)).rejects.toMatchObject(
      NO_SPACE,
    )
    makeRoom()
    expect(await get()).toBe('late late')
    expect(sandbox().view()).toMatchObject({ state: 'running', lostSince: undefined })
    expect(core.sandboxes.list({ limit: 10 }, core.caller).items).toHaveLength(1)
  })

  test.each(cases)('of $title, and the server ends: nothing is lost', async (given) => {
    await create()
    await set('early')
    await sandbox().standby({ tier: 'stored', cause: 'asked' })
    await set('late')
    if (given.before !== undefined) await sandbox().standby({ tier: given.before, cause: 'asked' })
    const makeRoom = given.fill()
    await expect(given.act()).rejects.toThrow()
    makeRoom()
    core = await core.restart()
    expect(sandbox().view().lostSince).toBeUndefined()
    expect(await get()).toBe('late late')
    expect(core.sandboxes.list({ limit: 10 }, core.caller).items).toHaveLength(1)
  })

  test('of a creation that failed: its name is free as soon as there is room', async () => {
    const makeRoom = fillDiskAfter('createBurrow')
    await expect(create()).rejects.toMatchObject(NO_SPACE)
    await expect(
      core.sandboxes.create(wanted({ name: 'one', getOrCreate: true }), core.caller),
    ).rejects.toMatchObject(NO_SPACE)
    makeRoom()
    await core.sandboxes.create(wanted({ name: 'one', getOrCreate: true }), core.caller)
    expect(await run('print(1)')).toBe('1')
    expect(core.sandboxes.list({ limit: 10 }, core.caller).items).toHaveLength(1)
  })

  test('of a refusal: it continues as soon as there is room', async () => {
    await create()
    await set('late')
    const refusal = new DormouseError('snapshot_refused', 'Not now.')
    let makeRoom = () => {}
    vi.spyOn(engine(), 'snapshot').mockImplementationOnce(async () => {
      makeRoom = fillDisk()
      throw refusal
    })
    await expect(sandbox().standby({ tier: 'stored', cause: 'asked' })).rejects.toThrow()
    await expect(sandbox().resume('resume')).rejects.toMatchObject(NO_SPACE)
    makeRoom()
    expect(await get()).toBe('late late')
    expect((await sandbox().why()).cannotSleep?.reason).toBe('Not now.')
  })

  test('of a rollback: it is as it was before', async () => {
    await create()
    await set('early')
    const { id } = await sandbox().snapshot({ name: 'early', kind: 'full' })
    await set('late')
    let makeRoom = fillDiskAfter('restore')
    await expect(sandbox().rollback(id)).rejects.toMatchObject(NO_SPACE)
    makeRoom()
    expect(await get()).toBe('late late')
    await sandbox().standby({ tier: 'frozen', cause: 'asked' })
    makeRoom = fillDisk()
    await expect(sandbox().rollback(id)).rejects.toMatchObject(NO_SPACE)
    makeRoom()
    expect(sandbox().view().tier).toBe('frozen')
    expect(await get()).toBe('late late')
  })

  test('of the end of its processes: it says what is lost as soon as there is room', async () => {
    await create()
    await set('late')
    const makeRoom = fillDisk()
    await killBurrow()
    await expectRefused()
    makeRoom()
    expect(await get()).toBe('None late')
    expect(sandbox().view().lostSince).toBeTypeOf('string')
  })

  test('of a standby: it is recorded as soon as there is room, also without a call', async () => {
    await create()
    const makeRoom = fillDiskAfter('snapshot')
    await expect(sandbox().standby({ tier: 'stored', cause: 'asked' })).rejects.toMatchObject(NO_SPACE)
    expect(sandbox().view().state).toBe('suspending')
    makeRoom()
    await vi.waitFor(() => expect(sandbox().view().tier).toBe('stored'), 20_000)
  })

  test('it can still be deleted', async () => {
    await create()
    await set('late')
    const makeRoom = fillDiskAfter('snapshot')
    await expect(sandbox().standby({ tier: 'frozen', cause: 'asked' })).rejects.toMatchObject(NO_SPACE)
    makeRoom()
    await sandbox().delete()
    expect(await host.factory.traces()).toEqual([])
  })
})

describe('when the files of dead processes cannot be saved', () => {
  test('for want of room: calls say so, and they are saved when there is some', async () => {
    await create()
    await set('late')
    const spy = refuseFiles(noSpace())
    await killBurrow()
    await expectRefused()
    spy.mockRestore()
    expect(await get()).toBe('None late')
    expect(sandbox().view().lostSince).toBeTypeOf('string')
  })

  test('for another reason: they stay where they are, and the next start saves them', async () => {
    await create()
    await set('early')
    await sandbox().standby({ tier: 'stored', cause: 'asked' })
    await set('late')
    refuseFiles(new Error('made to fail'))
    await killBurrow()
    await vi.waitFor(() => expect(sandbox().view()).toMatchObject({ state: 'standby' }), 20_000)
    expect(await get()).toBe('early early')
    await set('later')
    core = await core.restart()
    expect(await get()).toBe('later later')
    const { items } = core.sandboxes.listSnapshots({ sandboxId: sandbox().id, limit: 10 }, core.caller)
    const files = items.find(({ kind }) => kind === 'files')
    await sandbox().rollback(files?.id as never)
    expect(await get()).toBe('None late')
  })
})

function refuseFiles(error: Error) {
  const target = engine()
  const real: Engine['snapshot'] = target.snapshot.bind(target)
  return vi.spyOn(target, 'snapshot').mockImplementation(async (burrow, options) => {
    if (options.kind === 'files') throw error
    return real(burrow, options)
  })
}

async function killBurrow(): Promise<void> {
  const { burrow } = core.sandboxes.get('one', core.caller)
  if (burrow === undefined) throw new Error('no burrow')
  await host.factory.killBurrow(burrow.id)
  await burrow.ended
}

/** As soon as the server has heard that there are no processes any more. */
async function expectRefused(): Promise<void> {
  const resume = () => sandbox().resume('resume')
  await expect
    .poll(
      () =>
        resume().then(
          () => 'awake',
          ({ code }) => code,
        ),
      { timeout: 20_000 },
    )
    .toBe(NO_SPACE.code)
}
