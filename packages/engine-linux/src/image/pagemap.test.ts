import { describe, expect, it } from 'vitest'
import { type ImageFile, plainRecord } from './image-file.ts'
import { type Message, setUint } from './message.ts'
import { cutRuns, PAGE_BYTES, presentBytes, readPagemap, withRuns } from './pagemap.ts'

const page = (number: number) => BigInt(number) * PAGE_BYTES

function pagemap(...entries: Record<number, bigint>[]): ImageFile {
  const records = [{ 1: 7n }, ...entries].map((fields) => {
    const message: Message = []
    for (const [no, value] of Object.entries(fields)) setUint(message, Number(no), value)
    return plainRecord(message)
  })
  return { head: new Uint8Array(8), records }
}

const image = pagemap({ 1: page(10), 2: 0n, 4: 4n, 5: 10n }, { 1: page(40), 2: 0n, 4: 6n, 5: 5n })
const areas = [
  { start: page(0), end: page(12) },
  { start: page(14), end: page(18) },
  { start: page(18), end: page(42) },
]

describe('readPagemap', () => {
  it('finds each run in the pages image', () => {
    const { pagesId, runs } = readPagemap(image)
    expect(pagesId).toBe(7n)
    expect(runs.map(({ start, end, offset }) => [start, end, offset])).toEqual([
      [page(10), page(20), 0n],
      [page(40), page(45), page(10)],
    ])
  })

  it('reads the 32-bit count of releases before 4.2', () => {
    expect(readPagemap(pagemap({ 1: page(1), 2: 3n, 4: 4n })).runs[0]?.end).toBe(page(4))
  })

  it.each([
    ['pages of a parent dump', { 1: page(1), 2: 0n, 4: 1n, 5: 1n }],
    ['pages of a parent dump, in the old field', { 1: page(1), 2: 0n, 3: 1n, 4: 4n, 5: 1n }],
    ['pages that are elsewhere', { 1: page(1), 2: 0n, 4: 2n, 5: 1n }],
  ])('refuses %s', (_, entry) => {
    expect(() => readPagemap(pagemap(entry))).toThrow('incremental or lazy')
  })
})

it('cutRuns cuts at every border of an area and knows where each piece is stored', () => {
  const pieces = [...cutRuns(readPagemap(image).runs, areas)].map(({ run, area }) => [
    run.start / PAGE_BYTES,
    run.end / PAGE_BYTES,
    run.offset / PAGE_BYTES,
    area === undefined ? -1 : areas.indexOf(area),
  ])
  expect(pieces).toEqual([
    [10n, 12n, 0n, 0],
    [12n, 14n, 2n, -1],
    [14n, 18n, 4n, 1],
    [18n, 20n, 8n, 2],
    [40n, 42n, 10n, 2],
    [42n, 45n, 12n, -1],
  ])
})

it('presentBytes counts what is stored, not what is mapped', () => {
  const present = presentBytes(readPagemap(image).runs, areas)
  expect(areas.map((area) => present.get(area))).toEqual([page(2), page(4), page(4)])
})

it('withRuns writes pieces as entries with the flags they had', () => {
  const { runs } = readPagemap(image)
  const cut = { ...runs[1]!, start: page(41), offset: 0n }
  const written = withRuns(image, [cut])
  expect(written.records[1]?.message.map(({ no, value }) => [no, value])).toEqual([
    [1, page(41)],
    [2, 0n],
    [4, 6n],
    [5, 4n],
  ])
  expect(readPagemap(image).runs).toHaveLength(2)
})
