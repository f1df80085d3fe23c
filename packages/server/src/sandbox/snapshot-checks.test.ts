import { DormouseError, newSnapshotId, type SnapshotId } from '@dormouse/contracts'
import { beforeEach, expect, test } from 'vitest'
import type { SnapshotRow } from '../store/snapshot-rows.ts'
import { SnapshotChecks } from './snapshot-checks.ts'

/** An engine whose disk is as slow as a test wants it. */
const reading = new Map<SnapshotId, { finish: () => void; fail: (error: Error) => void }>()
const deleted = new Set<SnapshotId>()
const quarantined = new Map<SnapshotId, string>()
let begun: SnapshotId[] = []
const parts = {
  engine: {
    verifySnapshot: (id: SnapshotId) =>
      new Promise<void>((finish, fail) => {
        begun.push(id)
        reading.set(id, { finish, fail })
      }),
    listParts: async () => [],
  },
  quarantine: {
    lift: () => {},
    liftVerified: (id: SnapshotId) => void quarantined.delete(id),
    addVerified: (id: SnapshotId, reason: string) => void quarantined.set(id, reason),
    require: () => {},
  },
  snapshots: { get: (id: SnapshotId) => (deleted.has(id) ? undefined : { id }) },
} as unknown as ConstructorParameters<typeof SnapshotChecks>[0]

let checks: SnapshotChecks
beforeEach(() => {
  begun = []
  checks = new SnapshotChecks(parts)
})

const rows = (count: number, owner = 'ada') =>
  Array.from({ length: count }, () => ({ id: newSnapshotId(), owner }) as SnapshotRow)
const settled = () => new Promise((resolve) => setImmediate(resolve))

test('checks run one at a time, a failure does not stop the queue, and callers of the same check share it', async () => {
  const [first, second] = rows(2) as [SnapshotRow, SnapshotRow]
  const answers = [first, second, second].map((row) => checks.check(row))
  await settled()
  expect(begun).toEqual([first.id])
  reading.get(first.id)?.fail(new DormouseError('snapshot_unusable', 'It is damaged.'))
  await expect(answers[0]).rejects.toMatchObject({ code: 'snapshot_unusable' })
  await settled()
  expect(begun).toEqual([first.id, second.id])
  reading.get(second.id)?.finish()
  await Promise.all(answers.slice(1))
  expect(begun).toHaveLength(2)

  const again = checks.check(first)
  await settled()
  reading.get(first.id)?.finish()
  await again
  expect(begun).toEqual([first.id, second.id, first.id])
})

test('one owner cannot fill the line', async () => {
  const many = rows(5)
  const answers = many.slice(0, 4).map((row) => checks.check(row))
  await expect(checks.check(many[4] as SnapshotRow)).rejects.toMatchObject({ code: 'overloaded' })
  const [other] = rows(1, 'bob') as [SnapshotRow]
  answers.push(checks.check(other))
  for (const { id } of [...many.slice(0, 4), other]) {
    await settled()
    reading.get(id)?.finish()
  }
  await Promise.all(answers)
})

test('what is deleted while it is read is not damaged, but not found', async () => {
  const [row] = rows(1) as [SnapshotRow]
  const answer = checks.check(row)
  await settled()
  deleted.add(row.id)
  reading.get(row.id)?.fail(new DormouseError('snapshot_unusable', 'pages-1.img is missing.'))
  await expect(answer).rejects.toMatchObject({ code: 'not_found' })
})

test('what is damaged is quarantined, what only cannot be restored here is not, and what is whole leaves', async () => {
  const [one] = rows(1) as [SnapshotRow]
  const check = async (end: () => void) => {
    const answer = checks.check(one).catch((error: unknown) => error)
    await settled()
    end()
    await answer
  }
  const refuse = (details: object) => () =>
    reading.get(one.id)?.fail(new DormouseError('snapshot_unusable', 'No.', { details: { ...details } }))
  await check(refuse({ reason: 'the kernel is older' }))
  expect(quarantined.size).toBe(0)
  await check(refuse({ reason: 'a file is damaged', damaged: true }))
  expect(quarantined.get(one.id)).toBe('a file is damaged')
  await check(() => reading.get(one.id)?.finish())
  expect(quarantined.size).toBe(0)
})
