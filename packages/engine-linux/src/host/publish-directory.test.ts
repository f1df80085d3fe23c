import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { makeWorkDirectory, publishDirectory, switchCurrent } from './publish-directory.ts'

let parent: string
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'dormouse-publish-'))
})
afterEach(() => rmSync(parent, { recursive: true }))

it('makeWorkDirectory removes what an interrupted build left, and nothing else', async () => {
  const left = await makeWorkDirectory(parent)
  await writeFile(join(left, 'half'), 'a file')
  await mkdir(join(parent, 'finished'))
  const work = await makeWorkDirectory(parent)
  expect(readdirSync(parent).sort()).toEqual([work.slice(parent.length + 1), 'finished'])
})

it('switchCurrent points at the newest published directory', async () => {
  for (const name of ['one', 'two']) {
    const work = await makeWorkDirectory(parent)
    await publishDirectory(work, join(parent, name))
    await switchCurrent(join(parent, name))
    expect(readlinkSync(join(parent, 'current'))).toBe(name)
  }
  expect(readdirSync(parent).sort()).toEqual(['current', 'one', 'two'])
})
