import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { useSdkServer } from './sdk-server.ts'

const readme = fileURLToPath(new URL('../../packages/sdk/README.md', import.meta.url))
// Inside the tree, so that `dormouse` is found as for every other file here.
const folder = fileURLToPath(new URL('readme-blocks/', import.meta.url))
const text = await readFile(readme, 'utf8')
const blocks = [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? '')

const server = useSdkServer()
beforeAll(async () => {
  vi.stubEnv('DORMOUSE_URL', server.process.url)
  vi.stubEnv('DORMOUSE_API_KEY', server.process.key)
  await mkdir(folder, { recursive: true })
})
afterAll(async () => {
  vi.unstubAllEnvs()
  await rm(folder, { recursive: true, force: true })
})

describe('the README', () => {
  test('has code', () => {
    expect(blocks.length).toBeGreaterThan(4)
  })

  test.each(blocks.map((code, index) => [index + 1, code] as const))(
    'block %i prints what it says, and leaves nothing',
    async (number, code) => {
      const said = [...code.matchAll(/console\.log\(.*\/\/ (.*)$/gm)].map((match) => match[1])
      const printed: string[] = []
      const log = vi.spyOn(console, 'log').mockImplementation((...values: unknown[]) => {
        printed.push(values.map(shown).join(' '))
      })
      const file = `${folder}block-${number}.ts`
      await writeFile(file, code)
      await import(/* @vite-ignore */ file).finally(() => log.mockRestore())
      expect(printed).toEqual(said)
      expect(await server.ids()).toEqual([])
    },
  )
})

function shown(value: unknown): string {
  if (typeof value === 'string') return value
  return Array.isArray(value) ? JSON.stringify(value) : inspect(value)
}
