import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, truncateSync } from 'node:fs'
import { appendFile, link, mkdir, open, readFile, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { checkTree, type SealedTree } from './layer-sums.ts'

let directory: string
let tree: SealedTree
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'dormouse-sums-'))
  tree = { root: join(directory, 'tree'), sums: join(directory, 'sums') }
  await mkdir(tree.root)
})
// rm(1) copes with any depth.
afterEach(() => execFileSync('rm', ['-rf', directory]))

const at = (name: string) => join(tree.root, name)

/** One bit, with the times kept. */
async function flip(path: string, offset: number): Promise<void> {
  const { atime, mtime } = await stat(path)
  const file = await open(path, 'r+')
  const byte = Buffer.alloc(1)
  await file.read(byte, 0, 1, offset)
  await file.write(Buffer.from([(byte[0] ?? 0) ^ 0x10]), 0, 1, offset)
  await file.close()
  await utimes(path, atime, mtime)
}

const whole = expect.objectContaining({ damage: undefined })

describe('checksums of a tree', () => {
  test.each([1, 4095, 4096, 4097, (1 << 20) - 1, 1 << 20, (3 << 20) + 5])(
    'notice one bit at the beginning and at the end of a file of %i bytes',
    async (bytes) => {
      await writeFile(at('f'), Buffer.alloc(bytes, 'x'))
      // Whole seconds: utimes(2) of Node knows no nanoseconds.
      await utimes(at('f'), 1, 1)
      expect(await checkTree(tree, {})).toEqual({ readBytes: bytes, damage: undefined })
      for (const offset of new Set([0, bytes - 1])) {
        await flip(at('f'), offset)
        expect(await checkTree(tree, {})).toMatchObject({ damage: 'f is not as it was' })
        await flip(at('f'), offset)
        expect(await checkTree(tree, {})).toEqual(whole)
      }
    },
  )

  test('take a hole for the zeros that it stands for', async () => {
    await writeFile(at('f'), 'x')
    truncateSync(at('f'), 64 << 20)
    await utimes(at('f'), 1, 1)
    expect((await checkTree(tree, {})).readBytes).toBeLessThan(1 << 20)
    await flip(at('f'), 32 << 20)
    expect((await checkTree(tree, {})).damage).toBe('f is not as it was')
    await flip(at('f'), 32 << 20)
    expect(await checkTree(tree, {})).toEqual(whole)
  })

  test('are made of any names, kinds and depths, and follow nothing', async () => {
    const script = `
import os, sys
os.chdir(sys.argv[1])
os.mkfifo('p'); os.mknod('whiteout', 0o20000, 0); open(b'not \\xff utf8\\n', 'w').close()
for level in range(600):
    os.mkdir('a-directory'); os.chdir('a-directory')
open('deep', 'w').write('x')`
    execFileSync('python3', ['-c', script, tree.root])
    await writeFile(at('f'), 'x')
    await link(at('f'), at('g'))
    await symlink('/proc/kcore', at('s'))
    expect(await checkTree(tree, {})).toEqual(whole)
    expect(await checkTree(tree, {})).toEqual(whole)
    const change = 'for level in range(600): os.chdir("a-directory")'
    execFileSync('python3', [
      '-c',
      `import os, sys; os.chdir(sys.argv[1])\n${change}\nopen('deep', 'a').write('y')`,
      tree.root,
    ])
    expect((await checkTree(tree, {})).damage).toMatch(/^a-directory\/.* is not as it was$/)
  })

  test('are made anew when they are damaged or cut off themselves', async () => {
    await writeFile(at('f'), 'x')
    await checkTree(tree, {})
    const before = await readFile(tree.sums)
    for (const spoil of [
      () => flip(tree.sums, 30),
      async () => truncateSync(tree.sums, 20),
      () => appendFile(tree.sums, 'x'),
      async () => rmSync(tree.sums),
    ]) {
      await spoil()
      expect(await checkTree(tree, {})).toEqual(whole)
      await rmSync(tree.sums)
      await checkTree(tree, {})
      expect(await readFile(tree.sums)).toEqual(before)
    }
  })

  test('end when they are no longer wanted', async () => {
    await writeFile(at('f'), Buffer.alloc(8 << 20, 'x'))
    const signal = AbortSignal.timeout(200)
    await expect(checkTree(tree, { bytesPerSecond: 100_000, signal })).rejects.toThrow()
  })
})
