import { Dormouse } from 'dormouse'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { makeNodeTemplate } from '../languages/node-template.ts'
import { buildTemplate } from '../server/build-template.ts'
import { ServerProcess } from '../server/server-process.ts'
import { cliSurface } from './cli-surface.ts'
import { mcpSurface } from './mcp-surface.ts'
import { Player, readScenario } from './play-scenario.ts'
import { pythonSurface } from './python-surface.ts'
import type { Surface } from './surface.ts'
import { typescriptSurface } from './typescript-surface.ts'

const surfaces: Record<string, (server: ServerProcess) => Promise<Surface>> = {
  TypeScript: typescriptSurface,
  Python: pythonSurface,
  'the command line': cliSurface,
  MCP: mcpSurface,
}
/** R comes from Debian. */
const BUILD_MS = 300_000

interface Scenario {
  readonly name: string
  readonly file: string
  readonly isWanted?: boolean
  /** Makes what the scenario names. */
  readonly prepare?: (server: ServerProcess) => Promise<void>
}

const scenarios: readonly Scenario[] = [
  { name: 'one scenario', file: 'scenario.json' },
  {
    name: 'JavaScript and TypeScript',
    file: 'javascript.json',
    prepare: ({ url, key }) => makeNodeTemplate(new Dormouse({ url, apiKey: key }), 'with-node'),
  },
  {
    name: 'R',
    file: 'r.json',
    // Skip: 150 MB of packages; DORMOUSE_TEST_REGISTRIES=1 runs it.
    isWanted: process.env['DORMOUSE_TEST_REGISTRIES'] === '1',
    async prepare(server) {
      const built = await buildTemplate(server, { name: 'with-r', packages: ['r-base-core'] })
      expect(built).toMatchObject({ state: 'ready' })
    },
  },
]

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start({ builds: { memoryBytes: 1024 ** 3 } })
})
// What a try leaves that fails must not be in the way of the next.
afterEach(async () => {
  for (const { id } of (await server.ok('/v1/sandboxes')).items)
    await server.call(`/v1/sandboxes/${id}`, { method: 'DELETE' })
})
afterAll(async () => {
  await server?.cleanUp()
})

describe.each(scenarios.filter(({ isWanted = true }) => isWanted))('$name', ({ file, prepare }) => {
  const steps = readScenario(file)
  /** What came back on each surface, step by step. */
  const outcomes = new Map<string, object[]>()
  beforeAll(() => prepare?.(server), BUILD_MS)

  test.each(Object.keys(surfaces))(
    'over %s: every step comes out as the file says',
    { timeout: 120_000 },
    async (name) => {
      await using surface = await surfaces[name]!(server)
      const player = new Player(surface)
      const seen: object[] = []
      outcomes.set(name, seen)
      for (const step of steps) {
        const outcome = await player.play(step)
        expect(outcome, JSON.stringify(step)).toMatchObject(step.expect)
        seen.push(outcome)
      }
      expect((await server.ok('/v1/sandboxes')).items).toEqual([])
    },
  )

  test('comes out the same over all of them, also where the file says nothing', () => {
    const [first, ...others] = [...outcomes.values()]
    expect(first).toHaveLength(steps.length)
    for (const other of others) expect(other).toEqual(first)
    expect(others).toHaveLength(Object.keys(surfaces).length - 1)
  })
})
