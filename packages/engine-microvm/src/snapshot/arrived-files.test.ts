import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { SparseFile } from '@dormouse/engine'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { ArrivedFiles } from './arrived-files.ts'

const PAGE = 4096
let directory: string
const pool = () => join(directory, 'pool')
let arrived: ArrivedFiles
let loaded = 0

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-arrived-'))
  mkdirSync(pool())
  loaded = 0
  arrived = new ArrivedFiles(pool())
})
afterEach(() => rmSync(directory, { recursive: true }))

/** Two extents with a hole between, in chunks that do not end where the extents do. */
function sparse(bytes = Buffer.alloc(3 * PAGE, 'data')): SparseFile {
  const chunkBytes = 2 * PAGE
  return {
    sizeBytes: 10 * PAGE,
    extents: [
      [PAGE, PAGE],
      [5 * PAGE, 2 * PAGE],
    ],
    chunkBytes,
    load: async (chunk) => {
      loaded += 1
      return bytes.subarray(chunk * chunkBytes, (chunk + 1) * chunkBytes)
    },
  }
}

const put = (name: string, file = sparse()) =>
  arrived.use(() =>
    arrived.put(
      { key: 'machine/disks/one', file, modifiedNs: 123_456_789_012_345_678n },
      join(directory, name),
    ),
  )

it('a file that two snapshots share is fetched once, with its holes and its time', async () => {
  await put('one')
  await put('two')
  expect(loaded).toBe(2)
  const path = join(directory, 'two')
  const expected = Buffer.alloc(10 * PAGE)
  Buffer.alloc(PAGE, 'data').copy(expected, PAGE)
  Buffer.alloc(2 * PAGE, 'data').copy(expected, 5 * PAGE)
  expect(readFileSync(path).equals(expected)).toBe(true)
  const status = statSync(path, { bigint: true })
  expect(status.mtimeNs).toBe(123_456_789_012_345_678n)
  expect(status.blocks * 512n).toBeLessThan(10n * BigInt(PAGE))
  rmSync(path)
  await arrived.removeUnused()
  expect(readdirSync(pool())).toHaveLength(1)
  rmSync(join(directory, 'one'))
  await arrived.removeUnused()
  expect(readdirSync(pool())).toEqual([])
})

it.each([
  ['less', 2 * PAGE],
  ['more', 4 * PAGE],
])('a file that brings %s than its list says is refused, and nothing of it is left', async (_, bytes) => {
  const file = { ...sparse(), load: async () => Buffer.alloc(bytes / 2) }
  await expect(put('link', file)).rejects.toMatchObject({ code: 'snapshot_unusable' })
  expect(readdirSync(pool())).toEqual([])
})

it('what an earlier server did not finish goes', async () => {
  writeFileSync(join(pool(), '.new-1'), 'a part')
  await arrived.removeUnused()
  expect(readdirSync(pool())).toEqual([])
})
