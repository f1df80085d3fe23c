import { execFile } from 'node:child_process'
import { link, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { mergeLayers } from '../../packages/engine-linux/src/storage/layer-program.ts'

const run = promisify(execFile)
const program = fileURLToPath(new URL('random-layers.py', import.meta.url))
/** For longer runs by hand. The seed decides on every operation, so a failure can be repeated. */
const ROUNDS = Number(process.env['DORMOUSE_MERGE_ROUNDS'] ?? 6)
const SEED = Number(process.env['DORMOUSE_MERGE_SEED'] ?? 1)
const LAYERS = 7
const OUTPUT_MAX_BYTES = 64 * 1024 ** 2

let scratch: string
beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'dormouse-merge-'))
})
afterEach(() => rm(scratch, { recursive: true }))

/** In a mount namespace of its own: no mount outlives it. */
async function inNamespace(...args: string[]): Promise<string> {
  const argv = ['--mount', '--', 'python3', program, ...args]
  return (await run('unshare', argv, { maxBuffer: OUTPUT_MAX_BYTES })).stdout
}

const show = async (names: readonly string[]) => (await inNamespace('show', scratch, ...names)).split('\n')

/** False when it was refused, for hard links that it would break. */
async function merge(
  layers: readonly string[],
  below: readonly string[],
  into: string,
  breaksLinks = false,
): Promise<boolean> {
  await mkdir(join(scratch, into))
  await mkdir(join(scratch, 'mount'), { recursive: true })
  return mergeLayers({
    layersDir: scratch,
    mountPoint: join(scratch, 'mount'),
    layers,
    below: below.map((name) => join(scratch, name)),
    into: join(scratch, into),
    breaksLinks,
  })
}

const withoutLinks = (line: string) => line.replace(/, "same as": .*/, '')

describe('a merged layer shows what the layers showed', () => {
  const seeds = Array.from({ length: ROUNDS }, (_, index) => SEED + index)
  test.each(seeds)('after random operations, whichever run is merged (seed %i)', async (seed) => {
    await inNamespace('make', scratch, String(seed), String(LAYERS))
    const chain = [...Array.from({ length: LAYERS }, (_, index) => `layer-${LAYERS - index}`), 'base']
    const before = await show(chain)
    expect(before.length).toBeGreaterThan(10)
    // All, without the top one, the two at the bottom, some in between.
    for (const [from, to] of [
      [0, LAYERS],
      [1, LAYERS],
      [LAYERS - 2, LAYERS],
      [2, 5],
    ] as const) {
      const merged = `merged-${from}-${to}`
      const compare = async (name: string) => show([...chain.slice(0, from), name, ...chain.slice(to)])
      if (await merge(chain.slice(from, to), chain.slice(to), merged))
        expect(await compare(merged), `layers ${from} to ${to}`).toEqual(before)
      await merge(chain.slice(from, to), chain.slice(to), `${merged}-links`, true)
      expect((await compare(`${merged}-links`)).map(withoutLinks)).toEqual(before.map(withoutLinks))
    }
  })

  test('a merge of merged layers as well, and holes stay holes', async () => {
    await inNamespace('make', scratch, String(SEED + 1000), '6')
    await writeFile(join(scratch, 'layer-3', 'sparse'), '')
    await run('truncate', ['-s', '32M', join(scratch, 'layer-3', 'sparse')])
    const chain = [6, 5, 4, 3, 2, 1].map((index) => `layer-${index}`)
    const before = await show([...chain, 'base'])
    await merge(chain.slice(3), ['base'], 'first', true)
    await merge([...chain.slice(0, 3), 'first'], ['base'], 'second', true)
    expect((await show(['second', 'base'])).map(withoutLinks)).toEqual(before.map(withoutLinks))
    expect((await stat(join(scratch, 'second', 'sparse'))).blocks).toBe(0)
  })

  test('hard links between a renamed directory and the rest are not broken unasked', async () => {
    for (const name of ['base/a', 'layer-1/b']) await mkdir(join(scratch, name), { recursive: true })
    await writeFile(join(scratch, 'base/a/one'), 'content')
    await link(join(scratch, 'base/a/one'), join(scratch, 'base/two'))
    await run('mknod', [join(scratch, 'layer-1', 'a'), 'c', '0', '0'])
    const redirect = 'import os, sys; os.setxattr(sys.argv[1], "trusted.overlay.redirect", b"/a")'
    await run('python3', ['-c', redirect, join(scratch, 'layer-1', 'b')])
    await mkdir(join(scratch, 'layer-2'))
    const before = await show(['layer-2', 'layer-1', 'base'])
    expect(before.join()).toContain('b/one')
    expect(await merge(['layer-2', 'layer-1'], ['base'], 'refused')).toBe(false)
    expect(await merge(['layer-2', 'layer-1'], ['base'], 'merged', true)).toBe(true)
    expect((await show(['merged', 'base'])).map(withoutLinks)).toEqual(before.map(withoutLinks))
  })

  test('nothing is there for what is neither shown nor below', async () => {
    await inNamespace('make', scratch, String(SEED), '1')
    await mkdir(join(scratch, 'layer-2'))
    await run('mknod', [join(scratch, 'layer-2', 'z'), 'c', '0', '0'])
    await writeFile(join(scratch, 'layer-1', 'z'), 'made and removed again')
    await merge(['layer-2', 'layer-1'], ['base'], 'merged')
    expect(await readdir(join(scratch, 'merged'))).not.toContain('z')
  })
})
