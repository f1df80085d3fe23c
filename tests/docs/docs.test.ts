import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Dormouse } from 'dormouse'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { httpReference } from '../../docs/make-http.mjs'
import { makeNodeTemplate } from '../languages/node-template.ts'
import { HERE, ServerProcess } from '../server/server-process.ts'
import { linkSetUp } from '../set-up-directory.ts'
import { isAsSaid } from './is-as-said.ts'
import { isRun, readBlocks, readDocuments } from './read-blocks.ts'
import { readersPlace } from './readers-place.ts'
import { runBlock } from './run-block.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const documents = readDocuments(root)

let server: ServerProcess
let place: Awaited<ReturnType<typeof readersPlace>>
/** What every document may use. */
let kept: ReadonlySet<string> = new Set()
beforeAll(async () => {
  // A reader's data directory has what set-up made.
  server = await ServerProcess.start({}, { ...HERE, prepare: linkSetUp })
  place = await readersPlace(root, server)
  // In the place of the built-in one, which takes minutes of downloads.
  await makeNodeTemplate(new Dormouse({ url: server.url, apiKey: server.key }), 'node')
  kept = new Set(await listAll())
})
afterAll(async () => {
  await server?.cleanUp()
  await place?.[Symbol.asyncDispose]()
})

/** What a block can leave, in an order in which it can be deleted. */
const KINDS = [
  ...['schedules', 'webhooks', 'jobs', 'services', 'sandboxes', 'templates', 'snapshots', 'volumes'],
  ...['secrets', 'ssh-keys'],
]
/** What is deleted by its name. */
const NAMED = ['schedules', 'webhooks', 'templates', 'volumes', 'secrets']

/** Everything that a reader could have made. */
async function listAll(): Promise<string[]> {
  const found: string[] = []
  for (const kind of KINDS) {
    const { items } = await server.ok(`/v1/${kind}`)
    for (const { id, name, source } of items)
      if (source !== 'built_in' && source !== 'host')
        found.push(`${kind}/${NAMED.includes(kind) ? name : (id ?? name)}`)
  }
  return found
}

/** Only a job that has ended can be deleted. */
async function endJob(path: string): Promise<void> {
  await server.ok(`/v1/${path}/cancel`, { json: {} })
  await (await server.fetch(`/v1/${path}/events`)).text()
}

/** Removes what blocks left, and says what it was. */
async function removeAll(): Promise<string[]> {
  const left = (await listAll()).filter((path) => !kept.has(path))
  for (const path of left) {
    if (path.startsWith('jobs/')) await endJob(path)
    const { status, body } = await server.call(`/v1/${path}`, { method: 'DELETE' })
    if (status !== 204 && status !== 404) throw new Error(`${path}: ${JSON.stringify(body)}`)
  }
  return left
}

// A document is one test, because a reader goes from its first block to its last.
test.each(documents.filter(({ blocks }) => blocks.some(isRun)))(
  '$path does what it says, and leaves nothing',
  { timeout: 300_000 },
  async ({ path, blocks }) => {
    await removeAll()
    for (const block of blocks.filter(isRun)) {
      await runBlock(block, place).catch((error: Error) => {
        error.message = `${path}:${block.line}: ${error.message}`
        throw error
      })
    }
    expect(await removeAll()).toEqual([])
  },
)

describe('the documents', () => {
  test('have code that is run', () => {
    expect(documents.flatMap(({ blocks }) => blocks.filter(isRun)).length).toBeGreaterThan(10)
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

describe('a block is refused', () => {
  const mcp = (server: object) => JSON.stringify({ mcpServers: { x: server } })
  test.each([
    ['a command that fails', 'console', '$ false', /status of: false/],
    ['a command that fails in a pipe', 'console', '$ false | cat', /status of: false/],
    ['one that should have failed', 'console', '$ true  # exits with 1', /status of: true/],
    ['output that is not as said', 'console', '$ echo one\ntwo', /echo one/],
    ['a program that ends with an error', 'js', 'process.exitCode = 1', /to be \+0/],
    ['TypeScript', 'js', 'const one: number = 1', /SyntaxError/],
    ['a language that no test runs', 'ts', 'const one = 1', /is written as js/],
    ['what is not JSON', 'json', '{ port: 8080 }', /JSON/],
    ['a setting that does not exist', 'json', '{ "idleTimeoutMs": 1, "prot": 8080 }', /prot/],
    ['a template that cannot be built', 'json', '{ "name": "a b", "suite": "trixie" }', /name/],
    ['a program that is not there', 'json', mcp({ command: 'dormuose', args: [] }), /ENOENT/],
    [
      'a client without a key',
      'json',
      mcp({ command: 'dormouse', args: ['mcp'] }),
      /closed|unauthorized|key/,
    ],
    [
      'an address without a key',
      'json',
      mcp({ type: 'http', url: 'http://127.0.0.1:7070/mcp', headers: {} }),
      /unauthorized/,
    ],
  ])('%s', async (_what, language, code, why) => {
    const [block] = readBlocks(`\`\`\`${language}\n${code}\n\`\`\`\n`)
    await expect(async () => runBlock(block!, place)).rejects.toThrow(why)
  })

  test('unless it says what a command ends with', async () => {
    const [block] = readBlocks('```console\n$ echo one; exit 6  # exits with 6\none\n```\n')
    await runBlock(block!, place)
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
