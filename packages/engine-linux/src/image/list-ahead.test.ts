import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ImageFile, plainRecord, writeImage } from './image-file.ts'
import { listAhead } from './list-ahead.ts'
import { encodeMessage, type Message, setUint } from './message.ts'
import { OpenFiles } from './open-files.ts'

const directory = mkdtempSync(join(tmpdir(), 'dormouse-ahead-'))
afterAll(() => rmSync(directory, { recursive: true }))

const PAGE = 4096n
/** The magic number of all images, and of no kind in particular. */
const head = Buffer.from('19435654ffffffff', 'hex')

function area(start: bigint, end: bigint, pgoff: bigint, fileId: bigint): Message {
  const vma: Message = []
  for (const [index, value] of [start, end, pgoff, fileId, 3n, 2n, 0x41n].entries())
    setUint(vma, index + 1, value)
  return vma
}

beforeAll(async () => {
  const image: ImageFile = { head, records: [] }
  const files = new OpenFiles(image)
  const memory = files.add({ path: '/.dormouse/memory/sn-1', sizeBytes: 1n << 40n, permissions: 0o400 })
  const library = files.add({ path: '/usr/lib/libc.so.6', sizeBytes: 1n << 21n, permissions: 0o755 })
  await writeImage(join(directory, 'files.img'), image)
  const areas = [
    area(0x10000n * PAGE, 0x20000n * PAGE, 0n, library),
    area(0x20000n * PAGE, 0x30000n * PAGE, 0x100n * PAGE, memory),
  ]
  const mm = areas.map((vma) => ({ no: 14, type: 2 as const, value: encodeMessage(vma) }))
  await writeImage(join(directory, 'mm-2.img'), { head, records: [plainRecord(mm)] })
})

const line = (pid: number, start: number, end: number) => `${pid} ${start * 4096} ${end * 4096}\n`

test('addresses become ranges of the files that are mapped there, memory files first', async () => {
  // Spans both areas and ends beyond the last; the second is close enough to be read in one piece.
  const touched = line(2, 0x1fff0, 0x20010) + line(2, 0x20012, 0x20014) + line(2, 0x2ffff, 0x40000)
  expect(await listAhead(directory, touched)).toBe(
    [
      'm sn-1',
      `${0x100 * 4096} ${0x14 * 4096}`,
      `${0x100ff * 4096} 4096`,
      'f /usr/lib/libc.so.6',
      `${0xfff0 * 4096} ${16 * 4096}`,
      '',
    ].join('\n'),
  )
})

test('what was written comes before what was only read', async () => {
  const touched = `${line(2, 0x20010, 0x20011).trimEnd()} w\n${line(2, 0x20000, 0x20040)}`
  expect(await listAhead(directory, touched)).toBe(
    `m sn-1\n${0x110 * 4096} 4096\nm sn-1\n${0x100 * 4096} ${0x40 * 4096}\n`,
  )
})

test('what fits nothing is left out', async () => {
  const touched = `${line(9, 1, 2)}${line(2, 1, 2)}2 5 1\nx\n2 99999999999999999999 1\n-2 1 5\n\0`
  expect(await listAhead(directory, touched)).toBe('')
})
