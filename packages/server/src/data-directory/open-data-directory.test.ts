import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openDataDirectory } from './open-data-directory.ts'

let parent: string
let dataDir: string
let holder: ChildProcess | undefined
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'dormouse-data-'))
  dataDir = join(parent, 'data')
})
afterEach(() => {
  holder?.kill('SIGKILL')
  rmSync(parent, { recursive: true })
})

/** Another process that opens the directory with the same code, from the same sources. */
async function openInAnotherProcess(): Promise<ChildProcess> {
  const module = fileURLToPath(new URL('./open-data-directory.ts', import.meta.url))
  const script = `
    import { runnerImport } from 'vite'
    const conditions = ['dormouse-source', 'node', 'import', 'default']
    const options = { configFile: false, resolve: { conditions }, ssr: { resolve: { conditions } } }
    const { module } = await runnerImport(${JSON.stringify(module)}, options)
    globalThis.held = await module.openDataDirectory(${JSON.stringify(dataDir)})
    console.log('held')
    setInterval(() => {}, 1000)`
  const cwd = fileURLToPath(new URL('../../../..', import.meta.url))
  const child = spawn('node', ['--input-type=module', '-e', script], {
    cwd,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await Promise.race([
    once(child.stdout, 'data'),
    once(child, 'exit').then(() => Promise.reject(new Error('ended'))),
  ])
  return child
}

describe('openDataDirectory', () => {
  it('makes the directory so that others can pass through but not list it', async () => {
    await using _directory = await openDataDirectory(dataDir)
    expect(statSync(dataDir).mode & 0o777).toBe(0o711)
  })

  it('refuses a second opener and names the process of the first', async () => {
    holder = await openInAnotherProcess()
    await expect(openDataDirectory(dataDir)).rejects.toMatchObject({
      code: 'data_dir_locked',
      message: expect.stringContaining(`process ${holder.pid}`),
      details: { dataDir, pid: holder.pid },
    })
  })

  it('opens a directory whose holder was killed', async () => {
    holder = await openInAnotherProcess()
    holder.kill('SIGKILL')
    await once(holder, 'exit')
    await using _directory = await openDataDirectory(dataDir)
  })

  it('opens a directory again after it was given back', async () => {
    await (await openDataDirectory(dataDir))[Symbol.asyncDispose]()
    await using _directory = await openDataDirectory(dataDir)
    await expect(openDataDirectory(dataDir)).rejects.toMatchObject({ details: { pid: process.pid } })
  })

  it('says so when the directory cannot be made', async () => {
    writeFileSync(dataDir, 'a file in its place')
    await expect(openDataDirectory(join(dataDir, 'below'))).rejects.toMatchObject({ code: 'setup_failed' })
  })
})
