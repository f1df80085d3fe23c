import { mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FileCache } from './file-cache.ts'

describe('FileCache', () => {
  let directory: string
  let path: string
  let reads: number
  const read = async () => {
    reads += 1
    return readFile(path, 'utf8')
  }

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'dormouse-remember-'))
    path = join(directory, 'file')
    reads = 0
    await writeFile(path, 'one')
  })
  afterEach(() => rm(directory, { recursive: true }))

  it('reads a file once while it stays as it is', async () => {
    const memory = new FileCache<string>(2)
    expect([await memory.get(path, read), await memory.get(path, read), reads]).toEqual(['one', 'one', 1])
  })

  it('reads a file again when another of the same length has taken its place', async () => {
    const memory = new FileCache<string>(2)
    await memory.get(path, read)
    await writeFile(`${path}.new`, 'two')
    await rename(`${path}.new`, path)
    expect(await memory.get(path, read)).toBe('two')
  })

  it('fails as reading does when the file is gone', async () => {
    const memory = new FileCache<string>(2)
    await memory.get(path, read)
    await rm(path)
    await expect(memory.get(path, read)).rejects.toThrow('ENOENT')
  })

  it('forgets the oldest file when there are too many', async () => {
    const memory = new FileCache<string>(1)
    await memory.get(path, read)
    await memory.get(directory, async () => 'another')
    await memory.get(path, read)
    expect(reads).toBe(2)
  })
})
