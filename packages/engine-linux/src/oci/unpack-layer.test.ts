import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runCommandOrFail } from '../host/run-command.ts'
import { unpackLayer } from './unpack-layer.ts'

let work: string
let tar: Buffer
let count = 0

beforeAll(async () => {
  work = mkdtempSync(join(tmpdir(), 'dormouse-unpack-'))
  writeFileSync(join(work, 'hello'), 'hello\n'.repeat(100_000))
  await runCommandOrFail(
    { argv: ['tar', '-cf', join(work, 'layer.tar'), '-C', work, 'hello'] },
    'making a layer',
  )
  tar = readFileSync(join(work, 'layer.tar'))
})

afterAll(() => rmSync(work, { recursive: true }))

async function unpack(content: Buffer): Promise<{ digest: string; text: string }> {
  count += 1
  const archive = join(work, `${count}.gz`)
  const into = join(work, `${count}`)
  writeFileSync(archive, content)
  const digest = await unpackLayer({ archive, into, maxBytes: 1e8, maxFiles: 100 })
  return { digest, text: readFileSync(join(into, 'hello'), 'utf8') }
}

test('a layer of several gzip members, with zeros after the last, is the whole of them', async () => {
  const plain = await unpack(tar)
  const half = tar.length / 2
  const members = [gzipSync(tar.subarray(0, half)), gzipSync(tar.subarray(half)), Buffer.alloc(700_000)]
  expect(await unpack(Buffer.concat(members))).toEqual(plain)
  expect(plain.text).toBe('hello\n'.repeat(100_000))
})

test('a gzip layer that is cut off, or damaged, is refused', async () => {
  const packed = gzipSync(tar, { level: 0 })
  await expect(unpack(packed.subarray(0, -4))).rejects.toThrow('cut off')
  const damaged = Buffer.from(packed)
  const middle = Math.floor(packed.length / 2)
  damaged[middle] = (packed[middle] ?? 0) ^ 1
  await expect(unpack(damaged)).rejects.toThrow('damaged')
  await expect(unpack(Buffer.concat([packed, Buffer.from('more')]))).rejects.toThrow('damaged')
})
