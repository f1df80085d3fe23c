import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { PageWorker } from './page-worker.ts'

const PAGE = 4096
let dir: string
let memory: string
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'dormouse-fold-'))
  memory = join(dir, 'memory')
  await mkdir(memory)
})
afterEach(() => rm(dir, { recursive: true }))

const noise = (bytes: number, seed: number) =>
  Buffer.from(Array.from({ length: bytes }, (_, at) => (at * 131 + seed * 17 + (at >> 7)) % 256))

/** Six pages: equal to the base, two words changed, all changed, zeros, past the end of the base, without a base. */
async function makePages() {
  const base = noise(4 * PAGE, 1)
  await writeFile(join(memory, 'base'), base)
  const changed = Buffer.from(base.subarray(PAGE, 2 * PAGE))
  changed.writeUInt32LE(7, 0)
  changed.writeUInt8(changed.readUInt8(PAGE - 1) ^ 1, PAGE - 1)
  const pages = Buffer.concat([
    base.subarray(0, PAGE),
    changed,
    noise(PAGE, 9),
    Buffer.alloc(PAGE),
    noise(PAGE, 3),
    noise(PAGE, 4),
  ])
  const path = join(dir, 'pages-1.img')
  await writeFile(path, pages)
  const mapped = { path: join(memory, 'base'), offset: 0n }
  const parts = [
    { offset: 0n, lengthBytes: BigInt(5 * PAGE), base: mapped },
    { offset: BigInt(5 * PAGE), lengthBytes: BigInt(PAGE) },
  ]
  return { pages, path, parts, folded: join(dir, 'folded') }
}

test('unfolded pages are those that were folded, and unchanged words take no space', async () => {
  const { pages, path, parts, folded } = await makePages()
  await using worker = new PageWorker()
  await worker.fold(path, folded, parts)
  const { size } = await stat(folded)
  expect(size).toBeGreaterThan(3 * PAGE)
  expect(size).toBeLessThan(3.2 * PAGE)
  await worker.unfold([{ folded, pages: join(dir, 'again') }], memory)
  expect((await readFile(join(dir, 'again'))).equals(pages)).toBe(true)
})

test.each([
  ['the end is missing', (bytes: Buffer) => bytes.subarray(0, -1), /middle of a record/],
  ['the base is elsewhere', (bytes: Buffer) => replaced(bytes, 'base', '../x'), /name no memory file/],
  ['it is another file', (bytes: Buffer) => noise(bytes.length, 2), /no folded pages/],
])('refuses a folded image of which %s', async (_what, damage, message) => {
  const { path, parts, folded } = await makePages()
  await using worker = new PageWorker()
  await worker.fold(path, folded, parts)
  await writeFile(folded, damage(await readFile(folded)))
  await expect(worker.unfold([{ folded, pages: join(dir, 'again') }], memory)).rejects.toThrow(message)
})

function replaced(bytes: Buffer, before: string, after: string): Buffer {
  const copy = Buffer.from(bytes)
  copy.write(after, copy.indexOf(before))
  return copy
}
