import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newBurrowId, newSnapshotId } from '@dormouse/contracts'
import { expect, it, onTestFinished } from 'vitest'
import { FailureLog } from '../host/failure-log.ts'
import { Layout } from '../host/layout.ts'
import { Arrivals, type BeginArrival } from './arrivals.ts'

const CONTENT = Buffer.alloc(8192, 7)

it('keeps the mount of a burrow that is being launched when all of the memory has arrived', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'dormouse-arrivals-'))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  const layout = new Layout(directory, directory)
  const id = newSnapshotId()
  const paths = layout.snapshot(id)
  const burrow = { ...layout.burrow(newBurrowId()), run: join(directory, 'run'), memory: paths.memory }
  for (const path of [paths.memory, burrow.run]) await mkdir(path, { recursive: true })
  let arrive = () => {}
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve
  })
  const load = async () => {
    await arrived
    return CONTENT
  }
  const file = { sizeBytes: CONTENT.length, chunkBytes: CONTENT.length, extents: [[0, CONTENT.length]], load }
  const begin = { paths, manifest: { id, memory: [] }, memory: new Map([['pages', file]]) }
  await using arrivals = new Arrivals(layout, new FailureLog())
  const files = await arrivals.prepare(begin as unknown as BeginArrival, 'list')
  arrivals.start(begin as unknown as BeginArrival, files, '')
  const mount = await arrivals.mountFor(id)?.(burrow)
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
