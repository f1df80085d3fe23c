import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { newSandboxId } from '@dormouse/contracts'
import type { Burrow } from '@dormouse/engine'
import { LinuxEngine } from '@dormouse/engine-linux'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { aheadAddon } from '../../packages/engine-linux/src/native-programs.ts'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { testDataDir } from '../test-data-dir.ts'

const run = promisify(execFile)
const MB = 1024 ** 2
const addon = createRequire(import.meta.url)(aheadAddon) as {
  readAhead(list: string, memory: string, images: string, root: string): void
}

async function cachedBytes(path: string): Promise<number> {
  const { stdout } = await run('fincore', ['--bytes', '--noheadings', '--output', 'RES', path])
  return Number(stdout)
}

describe('reading ahead', () => {
  let root: string
  const at = (...parts: string[]) => join(root, ...parts)
  beforeAll(async () => {
    // Not on a tmpfs, which is always in memory.
    root = await mkdtemp(join(testDataDir, 'read-ahead-'))
    for (const name of ['memory', 'images', 'root']) await mkdir(at(name))
    for (const name of ['memory/one', 'memory/two', 'images/pages-1.img', 'root/lib.so', 'secret'])
      await writeFile(at(name), Buffer.alloc(16 * MB, 'x'))
  })
  afterAll(() => rm(root, { recursive: true, force: true }))

  async function makeCold(): Promise<void> {
    for (const name of ['memory/one', 'memory/two', 'images/pages-1.img', 'root/lib.so', 'secret']) {
      await run('sync', [at(name)])
      await run('dd', [`if=${at(name)}`, 'iflag=nocache', 'count=0', 'status=none'])
      expect(await cachedBytes(at(name))).toBe(0)
    }
  }
  const start = () => addon.readAhead(at('list'), at('memory'), at('images'), at('root'))
  const untilCached = (name: string) =>
    expect.poll(() => cachedBytes(at(name)), { timeout: 20_000 }).toBe(16 * MB)

  test('brings images, listed ranges and the rest of the memory into the page cache', async () => {
    await makeCold()
    await writeFile(at('list'), `m one\n0 ${8 * MB}\nf /lib.so\n0 ${16 * MB}\n`)
    start()
    for (const name of ['images/pages-1.img', 'root/lib.so', 'memory/one', 'memory/two'])
      await untilCached(name)
  })

  test('a damaged list does no harm, and leads to nothing outside', async () => {
    await makeCold()
    await symlink(at('secret'), at('root', 'link'))
    await run('mkfifo', [at('root', 'pipe')])
    const lines = [
      `m ../secret\n0 ${16 * MB}`,
      `f ../secret\n0 ${16 * MB}`,
      `f /link\n0 ${16 * MB}`,
      'f /pipe\n0 1',
      'm one\n-1 99999999999999999999999\n18446744073709551615 18446744073709551615\nx y\n5',
      `m ${'n'.repeat(9000)}\n0 1`,
      '\0\0\0',
    ]
    await writeFile(at('list'), lines.join('\n'))
    start()
    await untilCached('memory/two')
    expect(await cachedBytes(at('secret'))).toBe(0)
  })

  test('a missing list is as good as an empty one', async () => {
    await makeCold()
    await rm(at('list'))
    start()
    await untilCached('images/pages-1.img')
  })
})

describe('what a wake touched', () => {
  test('is kept with the next snapshot, as ranges of its own files, and a damaged list does not harm a wake', async () => {
    const factory = await linuxFactory()
    const engine = await LinuxEngine.open({ dataDir: testDataDir, stateDir: factory.stateDir })
    const python = async (burrow: Burrow, code: string) => {
      const { error, stdout } = await burrow.guest.runs.run({ code, timeoutMs: 50_000 })
      expect(error?.traceback).toBeUndefined()
      return stdout.trim()
    }
    try {
      const born = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
      await python(born, 'data = bytearray(b"d" * (32 << 20))')
      const slept = (await engine.snapshot(born, { leave: 'gone' })).snapshot
      const woken = await engine.restore(slept.id, { sandboxId: born.sandboxId })
      await python(woken, 'data[20 << 20]')
      const touched = join(factory.layout.burrow(woken.id as never).dir, 'touched')
      const read = () => readFile(touched, 'utf8').catch(() => '')
      await expect.poll(read, { timeout: 20_000 }).toMatch(/^\d+ \d+ \d+( w)?\n/)
      const { snapshot } = await engine.snapshot(woken, { leave: 'gone' })
      await engine.deleteSnapshot(slept.id)
      await engine.upkeep()

      const paths = factory.layout.snapshot(snapshot.id)
      const ahead = (await readFile(paths.ahead, 'utf8')).split('\n')
      const { memory } = JSON.parse(await readFile(paths.manifest, 'utf8')) as { memory: { name: string }[] }
      const named = ahead.filter((line) => line.startsWith('m ')).map((line) => line.slice(2))
      expect(memory.map(({ name }) => name)).toEqual(expect.arrayContaining(named))
      expect(named.length).toBeGreaterThan(0)
      expect(ahead.some((line) => /^f \/usr\/.*libc/.test(line))).toBe(true)
      const bytes = ahead.reduce((sum, line) => sum + Number(/^\d+ (\d+)$/.exec(line)?.[1] ?? 0), 0)
      expect(bytes).toBeGreaterThan(MB)
      // One page of the array was touched, not all of it.
      expect(bytes).toBeLessThan(120 * MB)

      for (const damage of ['', 'm ../../..\n0 5\nf /dev/zero\n0 9', '\0'.repeat(100_000)]) {
        await writeFile(paths.ahead, damage)
        await writeFile(paths.touched, damage)
        const again = await engine.restore(snapshot.id, { sandboxId: newSandboxId() })
        expect(await python(again, 'print(data.count(b"d"))')).toBe(String(32 << 20))
        await again.destroy()
      }
    } finally {
      for (const { id } of await engine.listSnapshots()) await engine.deleteSnapshot(id)
      await engine[Symbol.asyncDispose]()
      await factory.cleanUp()
    }
  }, 300_000)
})
