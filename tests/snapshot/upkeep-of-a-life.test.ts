import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Sandbox } from '@dormouse/server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runIn, type TestCore, type TestHost, testHost, wanted } from '../server/test-core.ts'

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

const run = (sandbox: Sandbox, code: string) => runIn(core, sandbox, code)

/** Of all snapshots there are. */
async function generations(): Promise<(number | undefined)[]> {
  const { snapshotsDir } = host.factory.layout
  const ids = (await readdir(snapshotsDir)).filter((name) => name.startsWith('sn-'))
  const manifests = ids.map((id) => readFile(join(snapshotsDir, id, 'manifest.json'), 'utf8'))
  return (await Promise.all(manifests)).map((text) => JSON.parse(text).generation)
}

const START = `import hashlib, os
data = bytearray(os.urandom(24 << 20)); address = id(data); freed = bytearray(os.urandom(24 << 20))`
/** Half of the memory file is not used any more. */
const WEAR = 'freed = None; data[0] ^= 1; seal = hashlib.sha256(data).digest()'
const CHECK = 'print(hashlib.sha256(data).digest() == seal, id(data) == address)'

const depth = (sandbox: Sandbox) => sandbox.view().tier

describe('upkeep in the life of a sandbox that goes to sleep by itself', () => {
  test('comes when it is asleep on disk, after it was in memory only', async () => {
    const policy = wanted({ idleTimeoutMs: 300, storeAfterMs: 3_000 })
    const { sandbox } = await core.sandboxes.create(policy, core.caller)
    await run(sandbox, START)
    await expect.poll(() => depth(sandbox), { timeout: 20_000 }).toBe('frozen')
    await run(sandbox, WEAR)
    await expect.poll(() => depth(sandbox), { timeout: 20_000 }).toBe('frozen')
    await expect.poll(() => depth(sandbox), { timeout: 20_000 }).toBe('stored')
    await expect.poll(generations, { timeout: 20_000 }).toEqual([1])
    expect(await run(sandbox, CHECK)).toBe('True True\n')
    await sandbox.delete()
  })

  test('comes after a start, to what the server before did not come to', async () => {
    const { sandbox } = await core.sandboxes.create(wanted(), core.caller)
    await run(sandbox, START)
    await sandbox.standby({ tier: 'stored', cause: 'asked' })
    await run(sandbox, WEAR)
    await sandbox.standby({ tier: 'stored', cause: 'asked' })
    core = await core.restart()
    expect(await generations()).toEqual([undefined])
    await expect.poll(generations, { timeout: 40_000 }).toEqual([1])
    const again = core.sandboxes.get(sandbox.id, core.caller)
    expect(await run(again, CHECK)).toBe('True True\n')
    await again.delete()
  })
})
