import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError, newSnapshotId, type SnapshotId } from '@dormouse/contracts'
import { expect, test } from 'vitest'
import { FailureLog } from '../host/failure-log.ts'
import { UpkeepQueue } from './upkeep-queue.ts'

function recorder() {
  const kept: SnapshotId[] = []
  const upkeep = new UpkeepQueue({
    isWanted: async () => true,
    improve: async (id) => {
      kept.push(id)
      return true
    },
    failures: new FailureLog(),
  })
  return { kept, upkeep }
}

test('a crowd that falls asleep at once is kept up, each once, and Node sees no leak in it', async () => {
  const warnings: string[] = []
  const onWarning = ({ message }: Error) => void warnings.push(message)
  process.on('warning', onWarning)
  const { kept, upkeep } = recorder()
  const ids = Array.from({ length: 50 }, () => newSnapshotId())
  for (const id of [...ids, ...ids]) upkeep.schedule(id, 20)
  await expect.poll(() => kept.length).toBe(ids.length)
  await upkeep.run([])
  expect(new Set(kept)).toEqual(new Set(ids))
  process.off('warning', onWarning)
  expect(warnings).toEqual([])
})

test('what still waits when it closes is not begun', async () => {
  const { kept, upkeep } = recorder()
  upkeep.schedule(newSnapshotId(), 20)
  await upkeep[Symbol.asyncDispose]()
  upkeep.schedule(newSnapshotId(), 1)
  await sleep(50)
  expect(kept).toEqual([])
})

test('a scheduled snapshot that cannot be improved is counted as a failure, and one that was deleted is not', async () => {
  const failures = new FailureLog()
  const missing = newSnapshotId()
  const upkeep = new UpkeepQueue({
    isWanted: async () => true,
    improve: async (id) => {
      if (id === missing) throw new DormouseError('not_found', 'There is no such snapshot.')
      throw new Error('the disk failed')
    },
    failures,
  })
  upkeep.schedule(missing, 1)
  upkeep.schedule(newSnapshotId(), 1)
  await expect.poll(() => failures.counts.get('upkeep')).toBe(1)
  await upkeep[Symbol.asyncDispose]()
  expect(failures.counts.get('upkeep')).toBe(1)
})
