import { execFile } from 'node:child_process'
import {
  copyFile,
  open,
  readdir,
  readFile,
  rename,
  stat,
  truncate,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { newSandboxId, type SnapshotId } from '@dormouse/contracts'
import type { Engine } from '@dormouse/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { SnapshotPaths } from '../../packages/engine-linux/src/host/layout.ts'
import { linuxFactory } from '../engine-linux/linux-factory.ts'

const run = promisify(execFile)
const factory = await linuxFactory()
let engine: Engine
let id: SnapshotId
let paths: SnapshotPaths

beforeAll(async () => {
  engine = await factory.open()
  const burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
  await burrow.guest.runs.run({
    // The log is in the template: open for writing, it is carried.
    code: 'x = 42; data = bytearray(b"x" * (8 << 20)); open("/root/f", "w").write("y"); log = open("/etc/issue", "a")',
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
  try {
    await expect(restore()).rejects.toMatchObject({
      code: 'snapshot_unusable',
      message: expect.stringMatching(reason),
    })
    await expect.poll(() => factory.traces()).toEqual([])
  } finally {
    await mend()
  }
  const burrow = await restore()
  const { stdout } = await burrow.guest.runs.run({
    code: 'print(x, len(data), data.count(b"x"), open("/root/f").read())',
  })
  expect(stdout).toBe(`42 ${8 << 20} ${8 << 20} y\n`)
  await burrow.destroy()
}

async function flipByte(path: string, offset?: number): Promise<() => Promise<unknown>> {
  const at = offset ?? Math.floor((await stat(path)).size / 2)
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

/** Only this sandbox uses it: memory files of the template are shared by everything on this host. */
async function ownMemory(): Promise<string> {
  const memory = await first(paths.memory, new RegExp(`^${id}-`))
  expect((await stat(memory)).nlink).toBe(1)
  return memory
}

const ownLinkedMemory = () => first(paths.memory, new RegExp(`^${id}-`))

/** The middle of the first megabyte that is no hole. */
async function findData(path: string): Promise<number> {
  const script = 'import os, sys; print(os.lseek(os.open(sys.argv[1], os.O_RDONLY), 0, os.SEEK_DATA))'
  const { stdout } = await run('python3', ['-c', script, path])
  return Number(stdout) + (1 << 19)
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

describe('a snapshot whose files were moved about', () => {
  test('is restored when its memory has other times and the same content', async () => {
    await utimes(await ownMemory(), 1, 1)
    await using next = await factory.open()
    await next.verifySnapshot(id)
    await (await next.restore(id, { sandboxId: newSandboxId() })).destroy()
  })

  test('is verified on demand byte by byte, also where the times tell nothing', async () => {
    const memory = await ownMemory()
    const { atime, mtime } = await stat(memory)
    const mend = await flipByte(memory, await findData(memory))
    await utimes(memory, atime, mtime)
    await expect(engine.verifySnapshot(id).finally(mend)).rejects.toMatchObject({
      code: 'snapshot_unusable',
      message: expect.stringMatching(/memory file .* damaged/),
    })
    await engine.verifySnapshot(id)
  })

  test('carries what was wrong with the memory it was restored from to its own children', async () => {
    const burrow = await engine.restore(id, { sandboxId: newSandboxId() })
    const memory = await ownLinkedMemory()
    const mend = await flipByte(memory)
    const child = (await engine.snapshot(burrow, { leave: 'gone' })).snapshot.id
    const restore = () => engine.restore(child, { sandboxId: newSandboxId() })
    await expect(restore()).rejects.toMatchObject({
      message: expect.stringMatching(/memory file .* damaged/),
    })
    await mend()
    await (await restore()).destroy()
    await engine.deleteSnapshot(child)
  })
})

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
      const memory = await ownMemory()
      const { size } = await stat(memory)
      await truncate(memory, size + 4096)
      return () => truncate(memory, size)
    }))

  test('for a memory file that was cut off', () =>
    expectRefused(/memory file .* bytes instead of/, async () => {
      const memory = await ownMemory()
      await run('cp', ['--archive', memory, `${memory}.whole`])
      await truncate(memory, 4096)
      return () => rename(`${memory}.whole`, memory)
    }))

  test('for a flipped byte in the pages of a memory file', () =>
    expectRefused(/memory file .* damaged/, async () => {
      const memory = await ownMemory()
      return flipByte(memory, await findData(memory))
    }))

  test('for a byte in a hole of a memory file', () =>
    expectRefused(/memory file .* damaged/, async () => flipByte(await ownMemory())))

  test('for a flipped byte in the list of carried files', () =>
    expectRefused(/carried files is damaged/, () => flipByte(paths.carried)))

  test('for a kernel older than the one it was taken on', () =>
    expectRefused(/taken on Linux 999\.0\.1.*older/, () =>
      editManifest((manifest) => {
        ;(manifest['fingerprint'] as { kernel: string }).kernel = '999.0.1'
      }),
    ))

  test('for a CRIU older than the one that wrote it, also when it is verified', async () => {
    await expectRefused(/CRIU 999\.1.*older/, () =>
      editManifest((manifest) => {
        manifest['criuVersion'] = '999.1'
      }),
    )
    const mend = await editManifest((manifest) => {
      manifest['criuVersion'] = '999.1'
    })
    await expect(engine.verifySnapshot(id)).rejects.toMatchObject({ code: 'snapshot_unusable' })
    await mend()
  })

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
