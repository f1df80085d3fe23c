import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { readExtents } from './read-extents.ts'

/** Processes that have the path on their command line. */
async function readersOf(path: string): Promise<string[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const lines = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')))
  return lines.filter((line) => line.includes(path))
}

it.each([0, 1])('ends its program when the content is closed after %i pieces', async (pieces) => {
  const directory = await mkdtemp(join(tmpdir(), 'dormouse-extents-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  const path = join(directory, 'memory')
  await writeFile(path, Buffer.alloc(8 * 1024 ** 2, 7))
  const { content } = await readExtents(path)
  const iterator = content[Symbol.asyncIterator]()
  for (let count = 0; count < pieces; count += 1) await iterator.next()
  expect(await readersOf(path)).toHaveLength(1)
  content.destroy()
  await expect.poll(() => readersOf(path)).toEqual([])
})
