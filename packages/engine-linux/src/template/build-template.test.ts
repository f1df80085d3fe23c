import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FileLock } from '../host/file-lock.ts'
import { buildTemplate, templateHash } from './build-template.ts'
import { parseTemplateDescription } from './description.ts'
import { findTemplate } from './template-store.ts'

// The whole build takes minutes and is proven by the set-up itself; these are the ways it can end early.
let dataDir: string
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'dormouse-build-'))
})
afterEach(() => rmSync(dataDir, { recursive: true }))

const description = parseTemplateDescription({ name: 'broken', suite: 'no-such-suite' })
const built = () => readdirSync(join(dataDir, 'templates', 'broken')).filter((name) => name !== 'lock')

describe('buildTemplate', () => {
  it('fails with the output of mmdebstrap and leaves nothing behind', async () => {
    const error = await buildTemplate({ description, dataDir }).catch((reason) => reason)
    expect(error).toMatchObject({ code: 'setup_failed' })
    expect(error.details.output.join('\n')).toMatch(/^E: /m)
    expect(built()).toEqual([])
    expect(await findTemplate(dataDir, 'broken')).toBeUndefined()
  })

  it('stops when aborted and leaves nothing behind', async () => {
    const stop = new AbortController()
    const build = buildTemplate({
      description,
      dataDir,
      signal: stop.signal,
      report: () => stop.abort('enough'),
    })
    await expect(build).rejects.toBe('enough')
    expect(built()).toEqual([])
  })

  it('refuses a second build of the same template while one is going on', async () => {
    await expect(buildTemplate({ description, dataDir })).rejects.toMatchObject({ code: 'setup_failed' })
    const lock = await FileLock.tryAcquire(join(dataDir, 'templates', 'broken', 'lock'))
    if (!(lock instanceof FileLock)) throw new Error('the first build kept its lock')
    await expect(buildTemplate({ description, dataDir })).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining(String(process.pid)),
    })
    await lock[Symbol.asyncDispose]()
  })
})

it('templateHash changes with every field that changes the result', () => {
  const other = parseTemplateDescription({ name: 'broken', suite: 'no-such-suite', packages: ['git'] })
  expect(templateHash(other)).not.toBe(templateHash(description))
})
