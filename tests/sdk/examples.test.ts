import { execFile } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { useSdkServer } from './sdk-server.ts'

const root = fileURLToPath(new URL('../../examples/', import.meta.url))
const folders = (await readdir(root)).filter((name) => name.startsWith('typescript-'))
const server = useSdkServer()

describe('the examples in TypeScript', () => {
  test('are there', () => {
    expect(folders.length).toBeGreaterThan(2)
  })

  // As a user runs them: with plain Node, on the package as it is built.
  test.each(folders)('%s verifies itself, and leaves nothing', async (folder) => {
    const program = `${root}${folder}/${folder.replace('typescript-', '')}.mjs`
    const { url: DORMOUSE_URL, key: DORMOUSE_API_KEY } = server.process
    const env = { PATH: process.env['PATH'], DORMOUSE_URL, DORMOUSE_API_KEY }
    const { stdout, stderr } = await promisify(execFile)(process.execPath, [program], { env })
    expect(stdout).not.toBe('')
    expect(stderr).toBe('')
    expect(await server.ids()).toEqual([])
  })
})
