import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { SparseFile } from '@dormouse/engine'
import { expect, it, onTestFinished } from 'vitest'
import { ArrivingFile } from './arriving-file.ts'

const PAGE_BYTES = 4096
const PIECES = 32

it('counts a chunk as here only when all of its pages are, at whatever moment the server is killed', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'dormouse-arriving-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  const chunkBytes = PIECES * PAGE_BYTES
  // One chunk that is spread over the file.
  const extents = Array.from({ length: PIECES }, (_, index) => [index * 2 * PAGE_BYTES, PAGE_BYTES] as const)
  const memory = { sizeBytes: 2 * chunkBytes, chunkBytes, extents } as unknown as SparseFile
  const place = { name: 'pages', path: join(directory, 'pages'), mapPath: join(directory, 'map'), memory }
  const file = await ArrivingFile.create(place, { owner: 0, mode: 0o600 })
  let isWritten = false
  const written = file.write(0, Buffer.alloc(chunkBytes, 7)).then(() => {
    isWritten = true
  })
  const states = new Set<string>()
  while (!isWritten) {
    const map = await readFile(place.mapPath)
    const isFirstThere = map[0] === 0
    states.add(`${isFirstThere} ${map.some((state) => state !== 0)}`)
    await nextTurn()
  }
  await written
  await file.close()
  expect(states).not.toContain('true true')
  expect(states).toContain('false true')
  const again = await ArrivingFile.open(place, { isTrusted: true })
  expect(again.missing).toEqual([])
  await again.close()
})
