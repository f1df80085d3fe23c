import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { httpReference } from '../../docs/make-http.mjs'
import { ServerProcess } from '../server/server-process.ts'
import { isAsSaid } from './is-as-said.ts'
import { readDocuments } from './read-blocks.ts'
import { type Place, readersEnvironment, runBlock } from './run-block.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const documents = readDocuments(root)

let server: ServerProcess
let place: Place
beforeAll(async () => {
  server = await ServerProcess.start()
  const cwd = await mkdtemp(join(tmpdir(), 'dormouse-docs-'))
  const bin = join(cwd, '.bin')
  await mkdir(bin)
  await symlink(join(root, 'dormouse'), join(bin, 'dormouse'))
  const { url, key } = server
  place = { cwd, env: readersEnvironment({ bin, url, key, dataDir: server.factory.stateDir }) }
  for (const name of ['PATH', 'DORMOUSE_URL', 'DORMOUSE_API_KEY']) vi.stubEnv(name, place.env[name])
})
afterAll(async () => {
  vi.unstubAllEnvs()
  await server?.cleanUp()
  if (place !== undefined) await rm(place.cwd, { recursive: true, force: true })
})

describe.each(documents.filter(({ blocks }) => blocks.length > 0))('$path', ({ blocks }) => {
  const run = blocks.filter(({ notRun }) => notRun === undefined)
  test.each(run.map((block) => [block.language, block.line, block] as const))(
    '%s at line %i does what it says',
    (_language, _line, block) => runBlock(block, place),
  )

  test('leaves nothing', async () => {
    const left: string[] = []
    // What is left is removed all the same, so that it is held against one document and not against those behind it.
    for (const kind of ['sandboxes', 'snapshots', 'volumes', 'secrets', 'ssh-keys']) {
      const { items } = await server.ok(`/v1/${kind}`)
      for (const { id, name } of items) {
        left.push(`${kind}/${id ?? name}`)
        await server.call(`/v1/${kind}/${id ?? name}`, { method: 'DELETE' })
      }
    }
    expect(left).toEqual([])
  })
})

describe('the documents', () => {
  test('have code that is run', () => {
    expect(
      documents.flatMap(({ blocks }) => blocks.filter(({ notRun }) => notRun === undefined)).length,
    ).toBeGreaterThan(10)
  })

  test('docs/http.md is what docs/make-http.mjs makes of the server', async () => {
    const written = documents.find(({ path }) => path === 'docs/http.md')?.text
    expect(httpReference(await server.ok('/openapi.json'))).toBe(written)
  })

  test.each(documents)('$path links only to files that are there', ({ path, text }) => {
    const targets = [...text.matchAll(/\]\((?!https?:|#)([^)#\s]+)[^)]*\)/g)].map((match) => match[1] ?? '')
    expect(targets.filter((target) => !existsSync(join(root, dirname(path), target)))).toEqual([])
  })
})

describe('comparing output with what is said', () => {
  test.each([
    [['sb-a9gti4tabifywqrg is running (390 ms)'], ['sb-fdsub3hn88rrrfpc is running (12 ms)'], true],
    [['499999500000'], ['499999500001'], false],
    [['one', 'two', 'three'], ['one', '…', 'three'], true],
    [['one', 'two'], ['one'], false],
    [['a  b'], ['a b'], true],
    [['{"id": "x", "y": 1}'], ['{"id": …}'], true],
  ])('%j as %j: %s', (printed, said, expected) => {
    expect(isAsSaid(printed, said)).toBe(expected)
  })
})
