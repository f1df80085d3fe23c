import type { SnapshotId } from '@dormouse/contracts'
import type { Sandbox } from '@dormouse/server'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { runIn, type TestCore, type TestHost, testHost, wanted } from './test-core.ts'

let host: TestHost
let core: TestCore

beforeAll(async () => {
  host = await testHost()
  core = await host.open()
})
afterAll(async () => {
  await core?.[Symbol.asyncDispose]()
  await host?.cleanUp()
})

const run = async (sandbox: Sandbox, code: string) => (await runIn(core, sandbox, code)).trim()

/** Deletes the snapshot at the moment at which the engine has read it. */
function deleteAfter(method: 'restore' | 'getSnapshot', id: SnapshotId): void {
  const { engine } = core.sandboxes.deps
  const real = engine[method].bind(engine) as (...args: unknown[]) => Promise<unknown>
  vi.spyOn(engine, method).mockImplementationOnce((async (...args: unknown[]) => {
    const result = await real(...args)
    await core.sandboxes.deleteSnapshot(id, core.caller)
    return result
  }) as never)
}

describe('a rollback to a snapshot that is deleted meanwhile', () => {
  test.each([
    ['running', 'restore'],
    ['frozen', 'getSnapshot'],
    ['stored', 'getSnapshot'],
  ] as const)('is refused, and the sandbox stays as it was (%s)', async (state, method) => {
    const { sandbox } = await core.sandboxes.create(wanted(), core.caller)
    await run(sandbox, 'x = "early"')
    const { id } = await sandbox.snapshot({ name: 'early', kind: 'full' })
    await run(sandbox, 'x = "late"')
    await sandbox.standby({ tier: 'stored', cause: 'asked' })
    if (state === 'running') await sandbox.resume('resume')
    else if (state === 'frozen') {
      await sandbox.resume('resume')
      await sandbox.standby({ tier: 'frozen', cause: 'asked' })
    }
    const { headSnapshotId } = sandbox.view()
    deleteAfter(method, id)
    await expect(sandbox.rollback(id)).rejects.toMatchObject({ code: 'not_found' })
    expect(sandbox.view()).toMatchObject({ headSnapshotId, state: state === 'running' ? state : 'standby' })
    await sandbox.standby({ tier: 'stored', cause: 'asked' })
    expect(await run(sandbox, 'print(x)')).toBe('late')
    await sandbox.delete()
    expect(await host.factory.traces()).toEqual([])
  })
})
