import { describe, expect, it } from 'vitest'
import {
  isGuardPages,
  isPlainAnonymous,
  isPlainPrivateFile,
  isPrivateFile,
  type MemoryArea,
  mapRangesToFile,
  readAreas,
} from './memory-area.ts'
import { decodeMessage, encodeMessage, type Message, setUint } from './message.ts'

const plain: MemoryArea = {
  start: 0x1000n,
  end: 0x9000n,
  fileOffset: 0n,
  fileId: 0n,
  prot: 3n,
  flags: 0x22n,
  status: 0x201n,
  madvice: 0n,
}

describe('isPlainAnonymous', () => {
  it.each<[string, Partial<MemoryArea>]>([
    ['private anonymous memory', {}],
    ['the heap', { status: 0x221n }],
    ['memory without reservation', { flags: 0x4022n }],
    ['memory that is not accessible', { prot: 0n }],
    ['memory that was advised to use huge pages', { madvice: 1n << 14n }],
  ])('takes %s', (_, difference) => {
    expect(isPlainAnonymous({ ...plain, ...difference })).toBe(true)
  })

  it.each<[string, Partial<MemoryArea>]>([
    ['the growing stack', { flags: 0x122n }],
    ['a stack', { status: 0x203n }],
    ['the vdso', { status: 0x209n }],
    ['vvar', { status: 0x1201n }],
    ['a shadow stack', { status: 0x8201n }],
    ['guard pages', { status: 0x10201n }],
    ['executable memory', { prot: 7n }],
    ['locked memory', { flags: 0x2022n }],
    ['huge pages of hugetlbfs', { flags: 0x40022n }],
    ['droppable memory', { flags: 0x28n }],
    ['shared memory', { flags: 0x21n, status: 0x101n }],
    ['a mapped file', { flags: 0x2n, status: 0x41n }],
    ['memory that children find empty', { madvice: 1n << 18n }],
  ])('leaves %s', (_, difference) => {
    expect(isPlainAnonymous({ ...plain, ...difference })).toBe(false)
  })
})

describe('isPlainPrivateFile', () => {
  const data: MemoryArea = { ...plain, flags: 0x2n, status: 0x41n, fileId: 7n }

  it('takes the data of a library, also after the loader has made it read-only', () => {
    expect(isPlainPrivateFile(data)).toBe(true)
    expect(isPlainPrivateFile({ ...data, prot: 1n })).toBe(true)
  })

  it.each<[string, Partial<MemoryArea>]>([
    ['code', { prot: 5n }],
    ['a shared mapping', { flags: 0x1n, status: 0x81n }],
    ['a locked one', { flags: 0x2002n }],
    ['anonymous memory', { flags: 0x22n, status: 0x201n }],
    ['guard pages', { status: 0x10041n }],
  ])('leaves %s', (_, difference) => {
    expect(isPlainPrivateFile({ ...data, ...difference })).toBe(false)
  })
})

/** As CRIU writes them, with a field of a later release at the end. */
function vma(start: bigint, status: bigint): Message {
  const message: Message = []
  const values = [start, start + 0x1000n, 0n, 0n, 3n, 0x4022n, status, 1n, 1n << 14n]
  values.forEach((value, index) => {
    setUint(message, index + 1, value)
  })
  setUint(message, 77, 5n)
  return message
}

const field = (message: Message) => ({ no: 14, type: 2 as const, value: encodeMessage(message) })

describe('mapRangesToFile', () => {
  it('changes the chosen areas and nothing else', () => {
    const mm = [0x1000n, 0x3000n, 0x3000n].map((start, index) =>
      field(vma(start, index === 2 ? 0x10200n : 0x201n)),
    )
    const before = readAreas(mm)
    mapRangesToFile(mm, [{ start: 0x3000n, end: 0x4000n, fileId: 9n, fileOffset: 1n << 33n }])
    const [first, second, guardPages] = readAreas(mm)
    expect([first, guardPages]).toEqual([before[0], before[2]])
    expect(isGuardPages(guardPages!)).toBe(true)
    expect(isPrivateFile(second!)).toBe(true)
    expect(second).toEqual({
      ...before[1],
      fileId: 9n,
      fileOffset: 1n << 33n,
      flags: 0x4002n,
      status: 0x41n,
    })
    const numbers = decodeMessage(mm[1]!.value).map(({ no }) => no)
    expect(numbers).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 77])
  })

  const mapped = (start: bigint, end: bigint, pgoff: bigint, fileId: bigint) => {
    const message = vma(start, 0x41n)
    setUint(message, 2, end)
    setUint(message, 3, pgoff)
    setUint(message, 4, fileId)
    setUint(message, 6, 0x4002n)
    setUint(message, 10, 0n)
    return field(message)
  }
  const shape = (mm: Message) =>
    readAreas(mm).map(({ start, end, fileId, fileOffset }) => [start, end, fileId, fileOffset].map(Number))

  it('splits an area that is partly in a range, and the rest keeps its place', () => {
    const mm = [mapped(0x10000n, 0x20000n, 0x5000n, 7n)]
    const range = { start: 0x13000n, end: 0x14000n, fileId: 9n, fileOffset: 0x8000n }
    mapRangesToFile(mm, [range, { ...range, start: 0x1f000n, end: 0x20000n, fileOffset: 0n }])
    expect(shape(mm)).toEqual([
      [0x10000, 0x13000, 7, 0x5000],
      [0x13000, 0x14000, 9, 0x8000],
      [0x14000, 0x1f000, 7, 0x9000],
      [0x1f000, 0x20000, 9, 0],
    ])
  })

  it('joins pieces of a range that spans several areas', () => {
    const mm = [mapped(0x10000n, 0x12000n, 0n, 7n), mapped(0x12000n, 0x13000n, 0n, 8n)]
    mapRangesToFile(mm, [{ start: 0x11000n, end: 0x13000n, fileId: 9n, fileOffset: 0x8000n }])
    expect(shape(mm)).toEqual([
      [0x10000, 0x11000, 7, 0],
      [0x11000, 0x13000, 9, 0x8000],
    ])
  })
})
