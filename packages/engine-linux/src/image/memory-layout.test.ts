import { expect, it } from 'vitest'
import type { MemoryArea } from './memory-area.ts'
import { layOutMemory } from './memory-layout.ts'

const MiB = 1n << 20n
const GiB = 1n << 30n
const TiB = 1n << 40n

function area(start: bigint, lengthBytes: bigint): MemoryArea {
  return {
    start,
    end: start + lengthBytes,
    fileOffset: 0n,
    fileId: 0n,
    prot: 3n,
    flags: 0x22n,
    status: 513n,
    madvice: 0n,
  }
}

it('leaves 8 GiB behind every area, also the last, and the start of the file empty', () => {
  const areas = [
    area(0x7f00_0000_3000n, 5n * MiB),
    area(0x5500_0000_1000n, 64n * MiB),
    area(0x7f00_1000_0000n, GiB),
  ]
  const { placed, sizeBytes } = layOutMemory(new Map(areas.map((one) => [one, MiB])), { areasMax: 10 })
  expect(placed.map(({ start }) => start)).toEqual([0x5500_0000_1000n, 0x7f00_0000_3000n, 0x7f00_1000_0000n])
  expect(placed[0]!.fileOffset).toBeGreaterThanOrEqual(2n * MiB)
  placed.forEach(({ start, end, fileOffset }, index) => {
    const next = placed[index + 1]?.fileOffset ?? sizeBytes
    expect(next - (fileOffset + end - start)).toBeGreaterThanOrEqual(8n * GiB)
    expect(fileOffset % (2n * MiB)).toBe(start % (2n * MiB))
  })
})

it('stays below 16 TiB with more areas than fit, and takes those with most content', () => {
  const areas = Array.from({ length: 3000 }, (_, index) => area(BigInt(index) * GiB, MiB))
  const present = new Map(areas.map((one, index) => [one, BigInt((index * 7919) % 3000)]))
  const { placed, sizeBytes } = layOutMemory(present, { areasMax: 5000 })
  expect(sizeBytes).toBeLessThan(16n * TiB)
  expect(placed.length).toBeGreaterThan(2000)
  const least = [...present.values()].sort((one, other) => Number(other - one))[placed.length - 1]!
  const contents = areas
    .filter((one) => placed.some(({ start }) => start === one.start))
    .map((one) => present.get(one)!)
  expect(contents.every((bytes) => bytes >= least)).toBe(true)
})

it('passes over an area that is too long for the file and takes smaller ones', () => {
  const [huge, small] = [area(0n, 20n * TiB), area(30n * TiB, MiB)]
  const { placed } = layOutMemory(
    new Map([
      [huge, 9n],
      [small, 1n],
    ]),
    { areasMax: 10 },
  )
  expect(placed.map(({ start }) => start)).toEqual([small.start])
})

it('takes no more areas than the guard has room for', () => {
  const areas = Array.from({ length: 20 }, (_, index) => area(BigInt(index) * GiB, MiB))
  const present = new Map(areas.map((one, index) => [one, BigInt(index)]))
  const { placed } = layOutMemory(present, { areasMax: 3 })
  expect(placed.map(({ start }) => start / GiB)).toEqual([17n, 18n, 19n])
})
