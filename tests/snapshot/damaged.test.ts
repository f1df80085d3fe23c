import { copyFile, open, readdir, readFile, rename, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { newSandboxId, type SnapshotId } from '@dormouse/contracts'
import type { Engine } from '@dormouse/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { SnapshotPaths } from '../../packages/engine-linux/src/burrow/layout.ts'
import { linuxFactory } from '../engine-linux/linux-factory.ts'

const factory = await linuxFactory()
let engine: Engine
let id: SnapshotId
let paths: SnapshotPaths

beforeAll(async () => {
  engine = await factory.open()
  const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  await burrow.guest.runs.run({
    code: 'x = 42; data = bytearray(b"x" * (8 << 20)); open("/root/f", "w").write("y")',
  })
  id = (await engine.snapshot(burrow, { leave: 'gone' })).snapshot.id
  paths = factory.layout.snapshot(id)
})
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

/** Damages it, sees it refused as a server that starts now would, mends it, and sees it restored. */
async function expectRefused(reason: RegExp, damage: () => Promise<() => Promise<unknown>>): Promise<void> {
  const mend = await damage()
  await using next = await factory.open()
  const restore = () => next.restore(id, { sandboxId: newSandboxId() })
  await expect(restore()).rejects.toMatchObject({
    code: 'snapshot_unusable',
    message: expect.stringMatching(reason),
  })
  await expect.poll(() => factory.traces()).toEqual([])
  await mend()
  const burrow = await restore()
  const { stdout } = await burrow.guest.runs.run({
    code: 'print(x, len(data), data.count(b"x"), open("/root/f").read())',
  })
  expect(stdout).toBe(`42 ${8 << 20} ${8 << 20} y\n`)
  await burrow.destroy()
}

async function flipByte(path: string): Promise<() => Promise<unknown>> {
  const at = Math.floor((await stat(path)).size / 2)
  const flip = async () => {
    const file = await open(path, 'r+')
    const byte = Buffer.alloc(1)
    await file.read(byte, 0, 1, at)
    await file.write(Buffer.from([(byte[0] ?? 0) ^ 1]), 0, 1, at)
    await file.close()
  }
  await flip()
  return flip
}

async function takeAway(path: string): Promise<() => Promise<unknown>> {
  await rename(path, `${path}.away`)
  return () => rename(`${path}.away`, path)
}

async function editManifest(change: (manifest: Record<string, unknown>) => void) {
  const before = await readFile(paths.manifest, 'utf8')
  const manifest = JSON.parse(before) as Record<string, unknown>
  change(manifest)
  await writeFile(paths.manifest, JSON.stringify(manifest))
  return () => writeFile(paths.manifest, before)
}

const first = async (directory: string, pattern: RegExp) => {
  const name = (await readdir(directory)).sort().find((each) => pattern.test(each))
  if (name === undefined) throw new Error(`nothing like ${pattern} in ${directory}`)
  return join(directory, name)
}

describe('a snapshot that cannot be restored is refused before anything starts', () => {
  test.each([/^core-\d+\.img$/, /^pages-\d+\.img$/, /^files\.img$/, /^mm-\d+\.img$/])(
    'for a flipped byte in %s',
    (image) => expectRefused(/damaged/, async () => flipByte(await first(paths.images, image))),
  )

  test('for an image that is missing', () =>
    expectRefused(/missing/, async () => takeAway(await first(paths.images, /^pstree/))))

  test('for an image that was cut off', () =>
    expectRefused(/bytes instead of/, async () => {
      const image = await first(paths.images, /^pages-/)
      await copyFile(image, `${image}.whole`)
      await truncate(image, 4096)
      return () => rename(`${image}.whole`, image)
    }))

  test('for a memory file that is missing', () =>
    expectRefused(/memory file .* missing/, async () =>
      takeAway(await first(paths.memory, new RegExp(`^${id}-`))),
    ))

  test('for a memory file of another size', () =>
    expectRefused(/memory file .* bytes instead of/, async () => {
      const memory = await first(paths.memory, new RegExp(`^${id}-`))
      const { size, nlink } = await stat(memory)
      // Nobody else's: memory files of the template are shared by everything on this host.
      expect(nlink).toBe(1)
      await truncate(memory, size + 4096)
      return () => truncate(memory, size)
    }))

  test('for a file layer that is missing', () =>
    expectRefused(/layer .* missing/, async () => takeAway(await first(factory.layout.layersDir, /^ly-/))))

  test('for another format version', () =>
    expectRefused(/format version 999/, () =>
      editManifest((manifest) => {
        manifest['formatVersion'] = 999
      }),
    ))

  test('for a CPU with features that this one lacks', () =>
    expectRefused(/lacks hyperdrive/, () =>
      editManifest((manifest) => {
        ;(manifest['fingerprint'] as { cpuFlags: string[] }).cpuFlags.push('hyperdrive')
      }),
    ))

  test('for a machine of another kind', () =>
    expectRefused(/taken on pdp11/, () =>
      editManifest((manifest) => {
        ;(manifest['fingerprint'] as { arch: string }).arch = 'pdp11'
      }),
    ))

  test('for a manifest that is not one', () =>
    expectRefused(/manifest/, async () => {
      const before = await readFile(paths.manifest)
      await writeFile(paths.manifest, before.subarray(0, before.length / 2))
      return () => writeFile(paths.manifest, before)
    }))
})
