import { describe, expect, it } from 'vitest'
import type { MemoryArea } from './memory-area.ts'
import { planPack } from './plan-pack.ts'

const LIBRARY = 7n
const MEMORY = 8n
const [R, RX, RW] = [1n, 5n, 3n]

function area(startPage: number, pages: number, rest: Partial<MemoryArea>): MemoryArea {
  const start = BigInt(startPage) * 4096n
  const end = start + BigInt(pages) * 4096n
  return {
    start,
    end,
    fileOffset: 0n,
    fileId: 0n,
    prot: RW,
    flags: 0x2n,
    status: 0x41n,
    madvice: 0n,
    ...rest,
  }
}

function anonymous(startPage: number, pages: number, rest: Partial<MemoryArea> = {}): MemoryArea {
  return area(startPage, pages, { flags: 0x22n, status: 0x201n, ...rest })
}

function library(startPage: number, pages: number, prot: bigint): MemoryArea {
  return area(startPage, pages, { fileId: LIBRARY, prot })
}

function plan(areas: MemoryArea[], { present = areas, apart = [] as MemoryArea[] } = {}) {
  const runs = present.map(({ start, end }) => ({ start, end, offset: 0n, message: [] }))
  const isLibrary = (id: bigint) => id === LIBRARY
  const isMemory = (id: bigint) => id === MEMORY
  return planPack(areas, { runs, apart, isLibrary, isMemory })
}

const pages = ({ start, end }: { start: bigint; end: bigint }) => [
  Number(start / 4096n),
  Number((end - start) / 4096n),
]

describe('planPack', () => {
  const protectionsOf = (areas: MemoryArea[]) => {
    const { protections } = plan(areas)
    return areas.map(({ start, prot }) => protections.get(start) ?? prot)
  }

  it('keeps the shape of a library, and gives all that is not written one protection', () => {
    const areas = [
      library(10, 1, R),
      library(11, 4, RX),
      library(15, 2, R),
      library(17, 1, R),
      library(18, 1, RW),
      anonymous(19, 3),
    ]
    expect(plan(areas).layout.placed.map(pages)).toEqual([[10, 12]])
    expect(protectionsOf(areas)).toEqual([RX, RX, RX, RX, RW, RW])
  })

  it('never makes memory that can be written executable, nor the other way round', () => {
    const areas = [
      library(10, 1, RW),
      library(11, 1, RX),
      library(12, 1, RW),
      library(13, 1, 7n),
      library(14, 1, R),
    ]
    expect(protectionsOf(areas)).toEqual([RW, RX, RW, 7n, R])
  })

  it('keeps memory that cannot be accessed inaccessible', () => {
    expect(protectionsOf([library(10, 1, RX), library(11, 1, 0n), library(12, 1, R)])).toEqual([RX, 0n, R])
  })

  it('leaves the protection of other memory', () => {
    expect(plan([anonymous(10, 1, { prot: R })]).protections.size).toBe(0)
  })

  it('leaves a hole behind memory that may grow', () => {
    const { layout } = plan([
      anonymous(10, 2),
      anonymous(12, 2, { prot: R }),
      library(14, 1, RX),
      anonymous(15, 1),
      library(16, 1, RX),
    ])
    expect(layout.placed.map(pages)).toEqual([
      [10, 2],
      [12, 2],
      [14, 2],
      [16, 1],
    ])
  })

  it('leaves anonymous memory without content, other files and what must stay', () => {
    const guard = library(40, 2, RW)
    const areas = [anonymous(10, 2), area(20, 2, { fileId: 99n, prot: RX }), guard]
    expect(plan(areas, { present: [], apart: [guard] }).groups).toEqual([])
  })

  it('takes memory that is in a memory file already', () => {
    const before = area(10, 3, { fileId: MEMORY })
    expect(plan([before], { present: [] }).groups.map(({ areas }) => areas.map(({ kind }) => kind))).toEqual([
      ['memory'],
    ])
  })
})
