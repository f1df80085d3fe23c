import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newSnapshotId } from '@dormouse/contracts'
import type { SparseFile } from '@dormouse/engine'
import { expect, it, onTestFinished } from 'vitest'
import { FailureLog } from '../host/failure-log.ts'
import { Arrivals, type BeginArrival } from './arrivals.ts'

const CONTENT = Buffer.alloc(8192, 7)

it('keeps the mount of a burrow that is being launched when all of the memory has arrived', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'dormouse-arrivals-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  const id = newSnapshotId()
  const dir = join(directory, id)
  const begin = { id, dir, memoryDir: join(dir, 'memory'), finish: async () => {} }
  await mkdir(begin.memoryDir, { recursive: true })
  let arrive = () => {}
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve
  })
  const file: SparseFile = {
    ...{ sizeBytes: CONTENT.length, chunkBytes: CONTENT.length, extents: [[0, CONTENT.length]] },
    load: async () => {
      await arrived
      return CONTENT
    },
  }
  const arriving: BeginArrival = { ...begin, memory: new Map([['pages', file]]) }
  await using arrivals = new Arrivals({
    ...{ failures: new FailureLog(), snapshotsDir: directory, burrowsDir: join(directory, 'burrows') },
    rights: { owner: 0, mode: 0o600 },
    findBurrow: async () => {
      throw new Error('there is no burrow')
    },
  })
  const files = await arrivals.prepare(arriving, 'list')
  arrivals.start(arriving, files, '')
  const mount = await arrivals.mountFor(id)?.({
    files: begin.memoryDir,
    directory: join(directory, 'shown'),
    socket: join(directory, 'socket'),
  })
  if (mount === undefined) throw new Error('the memory has arrived already')
  const done = arrivals.require(id)
  arrive()
  await done
  // The program hears of the end of a channel before it answers this.
  expect((await readFile(join(mount.directory, 'pages'))).equals(CONTENT)).toBe(true)
  const closed = new Promise((resolve) => mount.channel.once('close', resolve))
  mount.hide()
  await closed
})
