import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
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

async function merge(layers: readonly string[], below: readonly string[], into: string): Promise<void> {
  await mkdir(join(scratch, into))
  await mkdir(join(scratch, 'mount'), { recursive: true })
  await mergeLayers({
    layersDir: scratch,
    mountPoint: join(scratch, 'mount'),
    layers,
    below: below.map((name) => join(scratch, name)),
    into: join(scratch, into),
  })
}

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
      await merge(chain.slice(from, to), chain.slice(to), merged)
      const after = await show([...chain.slice(0, from), merged, ...chain.slice(to)])
      expect(after, `layers ${from} to ${to}`).toEqual(before)
    }
  })

  test('a merge of merged layers as well, and holes stay holes', async () => {
    await inNamespace('make', scratch, String(SEED + 1000), '6')
    await writeFile(join(scratch, 'layer-3', 'sparse'), '')
    await run('truncate', ['-s', '32M', join(scratch, 'layer-3', 'sparse')])
    const chain = [6, 5, 4, 3, 2, 1].map((index) => `layer-${index}`)
    const before = await show([...chain, 'base'])
    await merge(chain.slice(3), ['base'], 'first')
    await merge([...chain.slice(0, 3), 'first'], ['base'], 'second')
    expect(await show(['second', 'base'])).toEqual(before)
    expect((await stat(join(scratch, 'second', 'sparse'))).blocks).toBe(0)
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
