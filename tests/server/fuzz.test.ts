import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { testDataDir } from '../test-data-dir.ts'
import { type Draft, draft, picker } from './fuzz/draft.ts'
import { breakDraft } from './fuzz/faults.ts'
import { faultsOf } from './fuzz/judge.ts'
import { type Json, OpenApi, type Operation } from './fuzz/openapi.ts'
import { type Reply, type Request, Sender } from './fuzz/send.ts'
import { World } from './fuzz/world.ts'
import { written } from './fuzz/written.ts'
import { ServerProcess } from './server-process.ts'

const SEED = Number(process.env['FUZZ_SEED'] ?? 20_260_101)
const CASES = Number(process.env['FUZZ_CASES'] ?? 8)
const ROUTE_TIMEOUT_MS = 30_000 + CASES * 3_000
/** Refused before anything inside is asked: these may not even wake a sandbox. */
const AT_THE_EDGE = [401, 405, 406, 413, 415, 431]

let server: ServerProcess
let world: World
let api: OpenApi
let sender: Sender
const outcomes = new Map<string, number>()
beforeAll(async () => {
  console.log(`FUZZ_SEED=${SEED} FUZZ_CASES=${CASES}`)
  server = await ServerProcess.start({ logLevel: 'error' })
  api = new OpenApi(await server.ok('/openapi.json'))
  world = await World.make(server)
  sender = new Sender(server.url)
})
afterAll(async () => {
  console.log(Object.fromEntries([...outcomes].sort()))
  sender?.close()
  await server?.cleanUp()
})

describe('malformed requests, made from the OpenAPI document', () => {
  test(
    'every route: no inner error, no leak, answers as documented, and what is refused changes nothing',
    async () => {
      expect(api.operations.length).toBeGreaterThan(50)
      const problems: string[] = []
      for (const [index, operation] of api.operations.entries()) {
        problems.push(...(await tryOperation(operation, index)))
      }
      expect(problems).toEqual([])
      expect(await server.ok('/healthz')).toMatchObject({ status: 'ok' })
    },
    ROUTE_TIMEOUT_MS * 64,
  )
})

async function tryOperation(operation: Operation, index: number): Promise<string[]> {
  const problems: string[] = []
  // One seed for each route: a case stays the same when another route changes.
  const generators = fc.sample(fc.gen(), { seed: SEED + index * 1000, numRuns: CASES })
  let before = await world.state()
  for (const generator of generators) {
    const pick = picker(generator)
    const made = draft(api, operation, world.fixtures, pick)
    breakDraft(made, pick, world.fixtures)
    const request = written(made, world.authorization(made.caller))
    const reply = await sender.send(request).catch((error: Error) => error)
    const say = (what: string) => problems.push(`${describeCase(made, request, reply)}\n  → ${what}`)
    if (reply instanceof Error) {
      say(`no answer: ${reply.message}`)
      before = await world.state()
      continue
    }
    count(operation, reply)
    const hostPaths = [server.factory.stateDir, testDataDir, '/run/dormouse', process.cwd()]
    for (const fault of faultsOf({ api, hostPaths, secrets: world.secrets }, made, request, reply)) say(fault)
    if (reply.status < 400 && request.method !== 'GET') {
      await world.repair(operation.id)
      before = await world.state()
      continue
    }
    const after = await world.state()
    const changed = differences(before, after, reply)
    if (reply.status >= 400) for (const change of changed) say(`was refused, and changed ${change}`)
    before = after
  }
  return problems
}

function differences(before: Json, after: Json, { status }: Reply): string[] {
  const comparable = (state: Json) => {
    if (AT_THE_EDGE.includes(status)) return state
    const sandboxes = state.sandboxes.map(
      ({ state: _s, tier: _t, stateSince: _i, headSnapshotId: _h, ...rest }: Json) => rest,
    )
    return { ...state, sandboxes }
  }
  const [a, b] = [comparable(before), comparable(after)]
  return Object.keys(a)
    .filter((list) => a[list] !== undefined && b[list] !== undefined)
    .filter((list) => JSON.stringify(a[list]) !== JSON.stringify(b[list]))
    .map((list) => `${list}: ${JSON.stringify(a[list])} → ${JSON.stringify(b[list])}`)
}

function count({ id }: Operation, { status }: Reply): void {
  const name = `${id} ${status}`
  outcomes.set(name, (outcomes.get(name) ?? 0) + 1)
}

function describeCase(made: Draft, request: Request, reply: Reply | Error): string {
  const body = request.body === undefined ? '' : ` ${request.body.toString('latin1').slice(0, 400)}`
  const answer =
    reply instanceof Error ? '' : `\n  ${reply.status} ${reply.body.toString('utf8').slice(0, 400)}`
  const headers = JSON.stringify(made.headers).slice(0, 200)
  return `[${made.faults.join(' + ') || 'nothing wrong'}] as ${made.caller}: ${request.method} ${request.target.slice(0, 300)} ${headers}${body}${answer}`
}
