import { readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { type BurrowId, isSnapshotId } from '@dormouse/contracts'
import { DatabaseSync } from '@photostructure/sqlite'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { isAlive } from '../kill-process.ts'
import { ServerProcess } from './server-process.ts'

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start()
})
afterAll(() => server?.cleanUp())
afterEach(async () => {
  await server.clear()
  expect(await server.factory.traces()).toEqual([])
  expect((await readdir(server.factory.layout.snapshotsDir)).filter(isSnapshotId)).toEqual([])
})

const set = (value: string) => server.run('one', `x = "${value}"; open("/root/f", "w").write("${value}")`)
const get = () => server.run('one', 'print(x, open("/root/f").read())').then((text) => text.trim())

/** Created, saved as `early`, changed to `late`. Returns the snapshot. */
async function createWithPast(): Promise<string> {
  await server.ok('/v1/sandboxes', { json: { name: 'one', idleTimeoutMs: 0, storeAfterMs: 3_600_000 } })
  await set('early')
  const { id } = await server.ok('/v1/sandboxes/one/snapshots', { json: { name: 'early' } })
  await set('late')
  return id
}

/** PID 1 of the burrow that the row names. */
function firstPidOf(name: string): number {
  const db = new DatabaseSync(join(server.factory.stateDir, 'state.db'), { readOnly: true })
  const row = db.prepare('SELECT burrow FROM sandboxes WHERE name = ?').get(name) as { burrow: BurrowId }
  db.close()
  return Number(readFileSync(server.factory.layout.burrow(row.burrow).pidFile, 'utf8').split(' ')[0])
}

/** `kill -9` of the server at the moment in which a rollback has ended the old burrow and not removed it yet. */
async function killWhileOldBurrowGoes(snapshotId: string, old: number): Promise<void> {
  const asked = server.call('/v1/sandboxes/one/rollback', { json: { snapshotId } }).catch(() => 'cut off')
  const deadline = Date.now() + 20_000
  while (isAlive(old)) {
    if (Date.now() > deadline) throw new Error('the old burrow was not ended')
    await turn()
  }
  await server.kill()
  await asked
}

async function expectNoLoss(): Promise<void> {
  const { id, lostSince } = await server.ok('/v1/sandboxes/one')
  expect(lostSince).toBeUndefined()
  const { items } = await server.ok(`/v1/snapshots?sandboxId=${id}`)
  expect(items.filter(({ kind }: { kind: string }) => kind === 'files')).toEqual([])
  const { items: entries } = await server.ok('/v1/sandboxes/one/ledger')
  expect(entries.filter(({ detail }: { detail?: string }) => detail?.includes('files as they were'))).toEqual(
    [],
  )
}

describe('kill -9 of the server while a rollback ends the burrow before', () => {
  test('of a sandbox that is awake: the rollback is done, and nothing counts as lost', async () => {
    const id = await createWithPast()
    await killWhileOldBurrowGoes(id, firstPidOf('one'))
    await server.begin()
    await expectNoLoss()
    expect(await get()).toBe('early early')
  })

  test('of a sandbox that is frozen: the rollback is done, and nothing counts as lost', async () => {
    const id = await createWithPast()
    await server.ok('/v1/sandboxes/one/standby', { json: { tier: 'frozen' } })
    await killWhileOldBurrowGoes(id, firstPidOf('one'))
    await server.begin()
    await expectNoLoss()
    expect(await get()).toBe('early early')
  })

  test('and another one of the next server, before it has removed what it found: nothing counts as lost', async () => {
    const id = await createWithPast()
    await killWhileOldBurrowGoes(id, firstPidOf('one'))
    await server.begin([{ method: 'deleteSnapshot', when: 'before', does: 'hang' }])
    await server.kill()
    await server.begin()
    await expectNoLoss()
    expect(await get()).toBe('early early')
  })
})
