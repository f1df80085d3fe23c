import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { ServerProcess } from '../server/server-process.ts'
import { cliSurface } from './cli-surface.ts'
import { mcpSurface } from './mcp-surface.ts'
import { Player, steps } from './play-scenario.ts'
import { pythonSurface } from './python-surface.ts'
import type { Surface } from './surface.ts'
import { typescriptSurface } from './typescript-surface.ts'

const surfaces: Record<string, (server: ServerProcess) => Promise<Surface>> = {
  TypeScript: typescriptSurface,
  Python: pythonSurface,
  'the command line': cliSurface,
  MCP: mcpSurface,
}

let server: ServerProcess
/** What came back on each surface, step by step. */
const outcomes = new Map<string, object[]>()
beforeAll(async () => {
  server = await ServerProcess.start()
})
// What a try leaves that fails must not be in the way of the next.
afterEach(() => server.clear())
afterAll(async () => {
  await server?.cleanUp()
})

describe('one scenario', () => {
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
