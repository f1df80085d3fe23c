import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runCommandOrFail } from '../host/run-command.ts'
import type { PageMoves } from './page-mover.ts'
import { PageWorker } from './page-worker.ts'

const PAGE = 4096
let directory: string
let at: (name: string) => string
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-pages-'))
  at = (name) => join(directory, name)
})
afterEach(() => rmSync(directory, { recursive: true }))

/** One page per letter; `0` is a page of zeros. */
function pages(letters: string): Buffer {
  return Buffer.concat([...letters].map((letter) => Buffer.alloc(PAGE, letter === '0' ? 0 : letter)))
}

const range = (offset: number, count: number) => ({
  offset: BigInt(offset * PAGE),
  lengthBytes: BigInt(count * PAGE),
})
const move = (from: number, to: number, count: number) => ({
  from: BigInt(from * PAGE),
  to: BigInt(to * PAGE),
  lengthBytes: BigInt(count * PAGE),
})

let worker: PageWorker
beforeEach(() => {
  worker = new PageWorker()
})
afterEach(() => worker[Symbol.asyncDispose]())

const movePages = (tasks: readonly PageMoves[]) => worker.move(tasks)

describe('PageWorker', () => {
  it('moves pages of several tasks into sparse files and keeps the rest in order', async () => {
    writeFileSync(at('one'), pages('ab00cd0e'))
    writeFileSync(at('two'), pages('xyz'))
    const memory = { path: at('m1'), sizeBytes: 1n << 40n, moves: [move(1, 1000, 4), move(7, 2_000_000, 1)] }
    await movePages([
      { sourcePath: at('one'), keptPath: at('k1'), keep: [range(0, 1), range(5, 2)], memory },
      { sourcePath: at('two'), keptPath: at('k2'), keep: [range(0, 3)] },
    ])
    expect(readFileSync(at('k1'))).toEqual(pages('ad0'))
    expect(readFileSync(at('k2'))).toEqual(pages('xyz'))
    const { size, blocks, mode } = statSync(at('m1'))
    expect(size).toBe(2 ** 40)
    expect(mode & 0o777).toBe(0o400)
    const script = `import sys\nf = open(sys.argv[1], "rb")\nfor n in (999, 1000, 1001, 1003, 1004, 2000000):\n  f.seek(n * ${PAGE})\n  print(f.read(1), end="")`
    const { stdout } = await runCommandOrFail({ argv: ['python3', '-c', script, at('m1')] }, 'reading back')
    expect(stdout.trim()).toBe(String.raw`b'\x00'b'b'b'\x00'b'c'b'\x00'b'e'`)
    // Three pages with content and what the file system needs for itself.
    expect(blocks * 512).toBeLessThanOrEqual(8 * PAGE)
  })

  it('finds the pages of an image that are equal to those of memory files, in runs', async () => {
    writeFileSync(at('image'), pages('abcdefg0'))
    writeFileSync(at('base'), pages('xxabxd'))
    writeFileSync(at('other'), pages('gf'))
    await runCommandOrFail({ argv: ['truncate', '-s', String(4 * PAGE), at('other')] }, 'truncating')
    const compare = (from: number, name: string, to: number, count: number) => ({
      ...range(from, count),
      base: { path: at(name), offset: BigInt(to * PAGE) },
    })
    const found = await worker.findUnchanged(at('image'), [
      compare(0, 'base', 2, 4),
      // A mapping may reach past the end of its file.
      compare(4, 'base', 5, 2),
      compare(6, 'other', 0, 1),
      compare(7, 'other', 3, 1),
    ])
    expect(found).toEqual([range(0, 2), range(3, 1), range(6, 1), range(7, 1)])
    await expect(worker.findUnchanged(at('image'), [compare(7, 'base', 0, 2)])).rejects.toThrow('too short')
  })

  it('fills a memory file with pages and with parts of other memory files, whose holes stay holes', async () => {
    writeFileSync(at('base'), pages('pqrst0uv'))
    writeFileSync(at('sparse'), '')
    await runCommandOrFail({ argv: ['truncate', '-s', String(2 ** 40), at('sparse')] }, 'truncating')
    writeFileSync(at('one'), pages('a0b0k'))
    const bases = [
      { path: at('base'), ...move(4, 13, 1) },
      { path: at('base'), ...move(6, 15, 1) },
      // Reaches past the end of its file, as a mapping may.
      { path: at('base'), ...move(7, 16, 3) },
      { path: at('sparse'), ...move(0, 100, 2 ** 20) },
    ]
    const memory = { path: at('m1'), sizeBytes: 1n << 40n, bases, moves: [move(0, 10, 3), move(3, 14, 1)] }
    const task = { sourcePath: at('one'), keptPath: at('k1'), keep: [range(4, 1)], memory }
    await using idle = new PageWorker({ isIdle: true })
    const [made] = await idle.move([task])
    expect((await worker.sum([at('m1')]))[0]?.checksum).toBe(made?.checksum)
    expect(readFileSync(at('k1'))).toEqual(pages('k'))
    const found = Buffer.alloc(8 * PAGE)
    const file = openSync(at('m1'), 'r')
    readSync(file, found, 0, found.length, 9 * PAGE)
    closeSync(file)
    expect(found).toEqual(pages('0a0bt0uv'))
    expect(statSync(at('m1')).blocks * 512).toBeLessThanOrEqual(8 * PAGE)
    const ranges = [range(9, 3), range(12, 4), range(100, 2 ** 20)]
    expect(
      await worker.weigh([
        { path: at('m1'), ranges },
        { path: at('sparse'), ranges },
      ]),
    ).toEqual([4 * PAGE, 0])
  })

  it('copies a library from below a directory, with zeros behind its last byte', async () => {
    mkdirSync(at('root/lib'), { recursive: true })
    writeFileSync(at('root/lib/a.so'), pages('abc').subarray(0, 2 * PAGE + 5))
    writeFileSync(at('pages'), pages('xy'))
    const bases = [{ path: 'lib/a.so', beneath: at('root'), ...move(2, 11, 3) }]
    const memory = { path: at('m1'), sizeBytes: BigInt(20 * PAGE), bases, moves: [move(1, 10, 1)] }
    await movePages([{ sourcePath: at('pages'), keptPath: at('k1'), keep: [range(0, 1)], memory }])
    const copied = readFileSync(at('m1')).subarray(10 * PAGE, 12 * PAGE)
    expect(copied).toEqual(Buffer.concat([pages('y'), Buffer.from('ccccc'), Buffer.alloc(PAGE - 5)]))
    expect(readFileSync(at('k1'))).toEqual(pages('x'))
  })

  it.each([
    ['a symlink', 'link.so'],
    ['a path through a symlink', 'away/secret'],
    ['a path upwards', '../outside/secret'],
    ['a pipe', 'pipe'],
  ])('refuses a library that is %s', async (_what, path) => {
    for (const name of ['root', 'outside']) mkdirSync(at(name))
    writeFileSync(at('outside/secret'), pages('s'))
    symlinkSync(at('outside/secret'), at('root/link.so'))
    symlinkSync(at('outside'), at('root/away'))
    await runCommandOrFail({ argv: ['mkfifo', at('root/pipe')] }, 'making a pipe')
    writeFileSync(at('pages'), pages('x'))
    const memory = {
      ...{ path: at('m1'), sizeBytes: BigInt(PAGE), moves: [] },
      bases: [{ path, beneath: at('root'), ...move(0, 0, 1) }],
    }
    await expect(
      movePages([{ sourcePath: at('pages'), keptPath: at('k1'), keep: [], memory }]),
    ).rejects.toMatchObject({ code: 'internal' })
  })

  it('does nothing when nothing is to do', async () => {
    await expect(movePages([])).resolves.toEqual([])
  })

  it.each([
    ['a source that is shorter than its pagemap', { keep: [range(1, 2)] }, 'too short'],
    ['pages behind the end of the memory file', { moves: [move(0, 1, 1)] }, 'behind the end'],
    ['a part of a page', { keep: [{ offset: 1n, lengthBytes: 4096n }] }, 'not whole pages'],
  ])(
    'refuses %s',
    async (_, {
      keep = [],
      moves = [],
    }: { keep?: ReturnType<typeof range>[]; moves?: ReturnType<typeof move>[] }, why) => {
      writeFileSync(at('one'), pages('ab'))
      const memory = { path: at('m1'), sizeBytes: BigInt(PAGE), moves }
      const moving = movePages([{ sourcePath: at('one'), keptPath: at('k1'), keep, memory }])
      await expect(moving).rejects.toMatchObject({ code: 'internal', message: expect.stringContaining(why) })
    },
  )

  it('never overwrites a file', async () => {
    writeFileSync(at('one'), pages('a'))
    writeFileSync(at('k1'), 'of someone else')
    const moving = movePages([{ sourcePath: at('one'), keptPath: at('k1'), keep: [range(0, 1)] }])
    await expect(moving).rejects.toMatchObject({ message: expect.stringContaining('File exists') })
    expect(readFileSync(at('k1'), 'utf8')).toBe('of someone else')
  })

  it('says when the disk is full', async () => {
    writeFileSync(at('one'), pages('a'.repeat(512)))
    await runCommandOrFail(
      { argv: ['mount', '-t', 'tmpfs', '-o', 'size=1m', 'dormouse-test', directory] },
      'mounting',
    )
    try {
      writeFileSync(at('small'), pages('a'.repeat(100)))
      const memory = {
        path: at('m1'),
        sizeBytes: 1n << 40n,
        moves: Array.from({ length: 9 }, (_, n) => move(0, n * 1000, 100)),
      }
      const moving = movePages([{ sourcePath: at('small'), keptPath: at('k1'), keep: [], memory }])
      await expect(moving).rejects.toMatchObject({ code: 'no_space' })
    } finally {
      await runCommandOrFail({ argv: ['umount', directory] }, 'unmounting')
    }
    expect(existsSync(at('m1'))).toBe(false)
  })

  it('makes no file after it was disposed, and says so to callers that wait and to later ones', async () => {
    writeFileSync(at('one'), pages('a'.repeat(2560)))
    const task = (n: number) => ({
      sourcePath: at('one'),
      keptPath: at(`k${n}`),
      keep: Array.from({ length: 10 }, () => range(0, 2560)),
    })
    const moving = movePages(Array.from({ length: 50 }, (_, n) => task(n)))
    setTimeout(() => worker[Symbol.asyncDispose](), 20)
    await expect(moving).rejects.toMatchObject({
      code: 'internal',
      message: expect.stringContaining('SIGKILL'),
    })
    expect(existsSync(at('k49'))).toBe(false)
    await expect(movePages([task(99)])).rejects.toMatchObject({ code: 'internal' })
  })

  it('makes the checksum that xxhash documents of a file of one page', async () => {
    writeFileSync(at('abc'), 'abc')
    writeFileSync(at('more'), 'Nobody inspects the spammish repetition')
    writeFileSync(at('empty'), '')
    expect(await worker.sum([at('abc'), at('more'), at('empty')])).toEqual([
      { name: 'abc', sizeBytes: 3, checksum: '44bc2cf5ad770999' },
      { name: 'more', sizeBytes: 39, checksum: 'fbcea83c8a378bf1' },
      { name: 'empty', sizeBytes: 0, checksum: '0000000000000000' },
    ])
  })

  it('knows the checksum of a memory file from moving its pages, and the same from reading it', async () => {
    writeFileSync(at('one'), pages('ab00cd0e'))
    const memory = { path: at('m1'), sizeBytes: 1n << 40n, moves: [move(1, 5000, 4), move(7, 20, 1)] }
    const [made] = await movePages([{ sourcePath: at('one'), keptPath: at('k1'), keep: [], memory }])
    expect(made).toMatchObject({
      name: 'm1',
      sizeBytes: 2 ** 40,
      mtimeNs: statSync(at('m1'), { bigint: true }).mtimeNs,
    })
    expect(await worker.sum([at('m1')])).toEqual([
      { name: 'm1', sizeBytes: 2 ** 40, checksum: made?.checksum },
    ])
    expect(await worker.recall([at('m1')])).toEqual([made])
  })

  it('gives zeros and the hole in their place one checksum, and pages in another order another', async () => {
    writeFileSync(at('zeros'), pages('a000b'))
    writeFileSync(at('hole'), pages('a'))
    truncateSync(at('hole'), 5 * PAGE)
    const file = openSync(at('hole'), 'r+')
    writeSync(file, pages('b'), 0, PAGE, 4 * PAGE)
    closeSync(file)
    writeFileSync(at('swapped'), pages('b000a'))
    const sums = (await worker.sum([at('zeros'), at('hole'), at('swapped')])).map(({ checksum }) => checksum)
    expect(sums[1]).toBe(sums[0])
    expect(sums[2]).not.toBe(sums[0])
  })

  it('remembers what a memory file was, whatever happens to it', async () => {
    writeFileSync(at('one'), pages('abc'))
    const memory = { path: at('m1'), sizeBytes: BigInt(3 * PAGE), moves: [move(0, 0, 3)] }
    const [made] = await movePages([{ sourcePath: at('one'), keptPath: at('k1'), keep: [], memory }])
    writeFileSync(at('m1'), pages('abx'))
    expect(await worker.recall([at('m1')])).toEqual([made])
    expect((await worker.sum([at('m1')]))[0]?.checksum).not.toBe(made?.checksum)
    expect(statSync(at('m1'), { bigint: true }).mtimeNs).not.toBe(made?.mtimeNs)
  })

  it('syncs trees of any size and depth, with things in it that are no files', async () => {
    const deep = at(Array.from({ length: 90 }, () => 'd').join('/'))
    mkdirSync(deep, { recursive: true })
    for (let n = 0; n < 600; n++) writeFileSync(at(`f${n}`), 'x')
    symlinkSync('/nowhere', at('link'))
    await runCommandOrFail({ argv: ['mkfifo', at('fifo')] }, 'making a pipe')
    await worker.sync([deep, directory, at('f0')])
    await expect(worker.sync([at('missing')])).rejects.toMatchObject({
      message: expect.stringContaining('No such file'),
    })
  })
})
