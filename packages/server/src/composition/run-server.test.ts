import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { loadConfig } from '../config/config.ts'
import { openDataDirectory } from '../data-directory/open-data-directory.ts'
import { runServer } from './run-server.ts'

let dataDir: string
beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'dormouse-server-'))
})
afterEach(() => rmSync(dataDir, { recursive: true }))

function start() {
  const lines: string[] = []
  const { signal } = new AbortController()
  return {
    lines,
    ended: runServer({ config: loadConfig({ env: {}, dataDir }), signal, print: (line) => lines.push(line) }),
  }
}

it('runServer refuses a host without templates, says what to do and never says ready', async () => {
  const { lines, ended } = start()
  await expect(ended).rejects.toMatchObject({
    code: 'host_unsupported',
    details: { checks: expect.arrayContaining(['templates']) },
    hint: expect.stringContaining('./dormouse up'),
  })
  expect(lines).toEqual([])
  // A refused start gives the directory back.
  await using _directory = await openDataDirectory(dataDir)
})

it('runServer refuses a data directory in use before it looks at the host', async () => {
  await using _directory = await openDataDirectory(dataDir)
  await expect(start().ended).rejects.toMatchObject({ code: 'data_dir_locked' })
})
