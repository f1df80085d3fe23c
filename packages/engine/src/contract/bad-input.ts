import { describe, expect, test } from 'vitest'
import type { Guest } from '../guest.ts'
import { collect, runPython } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

type Group = 'runs' | 'contexts' | 'processes' | 'files'
type LooseGuest = Record<Group, Record<string, (...args: unknown[]) => unknown>>
type Call = readonly [method: `${Group}.${string}`, ...args: unknown[]]

const MIB = 1024 ** 2
const LONG = 'x'.repeat(5000)

const RUNS: Call[] = ['run', 'stream'].flatMap((method): Call[] => [
  [`runs.${method}`, {}],
  [`runs.${method}`, { code: 5 }],
  [`runs.${method}`, { code: null }],
  [`runs.${method}`, { code: 'canary = "dead"', colour: 'red' }],
  [`runs.${method}`, { code: 'canary = "dead"', language: 'ruby' }],
  [`runs.${method}`, { code: 'canary = "dead"', context: 5 }],
  [`runs.${method}`, { code: 'canary = "dead"', context: '../default' }],
  [`runs.${method}`, { code: 'canary = "dead"', timeoutMs: 0 }],
  [`runs.${method}`, { code: 'canary = "dead"', timeoutMs: 1.5 }],
  [`runs.${method}`, { code: 'canary = "dead"', timeoutMs: '100' }],
  [`runs.${method}`, { code: 'canary = "dead"', timeoutMs: Number.NaN }],
  [`runs.${method}`, { code: 'canary = "dead"', timeoutMs: 1e15 }],
  [`runs.${method}`, { code: 'canary = "dead"', runId: 'a b' }],
  [`runs.${method}`, { code: 'canary = "dead" # \ud800' }],
])

const RUN_QUERIES: Call[] = [
  ['runs.events', 5],
  ['runs.events', ''],
  ['runs.events', 'run-x', { after: -2 }],
  ['runs.events', 'run-x', { after: '0' }],
  ['runs.events', 'run-x', { follow: 1 }],
  ['runs.events', 'run-x', { colour: 'red' }],
  ['runs.interrupt', 5],
  ['runs.interrupt', '../x'],
]

const CONTEXTS: Call[] = [
  ['contexts.create', {}],
  ['contexts.create', { context: 5 }],
  ['contexts.create', { context: 'new', user: 5 }],
  ['contexts.create', { context: 'new', env: ['A'] }],
  ['contexts.create', { context: 'new', env: { A: 5 } }],
  ['contexts.create', { context: 'new', env: { A: 'b\0c' } }],
  ['contexts.create', { context: 'new', env: { '': 'b' } }],
  ['contexts.create', { context: 'new', cwd: '' }],
  ['contexts.create', { context: 'new', cwd: '/tmp\0' }],
  ['contexts.create', { context: 'new', colour: 'red' }],
  ['contexts.delete', 5],
  ['contexts.delete', 'default\n'],
  ['contexts.output', 'default', { after: 1.5 }],
  ['contexts.output', 'default', { colour: 'red' }],
]

const PROCESSES: Call[] = ['start', 'stream'].flatMap((method): Call[] => [
  [`processes.${method}`, {}],
  [`processes.${method}`, { args: ['true'], shell: 'true' }],
  [`processes.${method}`, { args: [] }],
  [`processes.${method}`, { args: 'true' }],
  [`processes.${method}`, { args: [5] }],
  [`processes.${method}`, { args: [''] }],
  [`processes.${method}`, { args: ['echo', 'a\0b'] }],
  [`processes.${method}`, { shell: 5 }],
  [`processes.${method}`, { shell: 'echo a\0b' }],
  [`processes.${method}`, { args: ['true'], cwd: 5 }],
  [`processes.${method}`, { args: ['true'], env: { 'A=B': 'c' } }],
  [`processes.${method}`, { args: ['true'], user: '../root' }],
  [`processes.${method}`, { args: ['true'], stdin: 'yes' }],
  [`processes.${method}`, { args: ['true'], timeoutMs: -1 }],
  [`processes.${method}`, { args: ['true'], pty: true }],
  [`processes.${method}`, { args: ['true'], pty: { cols: 80 } }],
  [`processes.${method}`, { args: ['true'], pty: { cols: 0, rows: 24 } }],
  [`processes.${method}`, { args: ['true'], pty: { cols: 80, rows: 24, depth: 8 } }],
  [`processes.${method}`, { args: ['true'], colour: 'red' }],
])

const CONNECTED: Call[] = [
  ['processes.connect', {}],
  ['processes.connect', { args: ['true'], shell: 'true' }],
  ['processes.connect', { args: [''] }],
  ['processes.connect', { shell: 'echo a\0b' }],
  ['processes.connect', { args: ['true'], user: '../root' }],
  ['processes.connect', { args: ['true'], stdin: true }],
  ['processes.connect', { args: ['true'], pty: { cols: 0, rows: 24 } }],
]

const PROCESS_QUERIES: Call[] = [
  ['processes.events', 5],
  ['processes.events', '0'],
  ['processes.events', 'pr-../../etc'],
  ['processes.events', '3', { after: -5 }],
  ['processes.signal', 5, 'SIGTERM'],
  ['processes.signal', '1', 'SIGNOPE'],
  ['processes.signal', '1', 9],
  ['processes.writeStdin', '-1', 'x'],
  ['processes.writeStdin', '1', 5],
  ['processes.writeStdin', '1', 'x', { close: 'no' }],
  ['processes.resize', '1', { cols: 0, rows: 0 }],
  ['processes.resize', '1', { cols: '80', rows: 24 }],
  ['processes.resize', '1', { cols: 80, rows: 24, depth: 8 }],
]

const BAD_PATHS: Call[] = ['', 5, null, '/tmp/a\0b', LONG].flatMap((path): Call[] => [
  ['files.read', path],
  ['files.write', path, 'x'],
  ['files.stat', path],
  ['files.list', path],
  ['files.open', path],
  ['files.watch', path],
  ['files.mkdir', path],
  ['files.remove', path],
  ['files.move', { from: '/tmp/canary', to: path }],
  ['files.move', { from: path, to: '/tmp/moved' }],
])

const BAD_FILE_OPTIONS: Call[] = [
  ...(['read', 'stat', 'list', 'remove'] as const).flatMap((method): Call[] => [
    [`files.${method}`, '/tmp/canary', { user: 5 }],
    [`files.${method}`, '/tmp/canary', { user: 'a/b' }],
    [`files.${method}`, '/tmp/canary', { colour: 'red' }],
  ]),
  ['files.read', '/tmp/canary', { offset: -1 }],
  ['files.read', '/tmp/canary', { length: '5' }],
  ['files.write', '/tmp/canary', 'dead', { mode: '755' }],
  ['files.write', '/tmp/canary', 'dead', { mode: 0o10000 }],
  ['files.write', '/tmp/canary', 'dead', { append: 'yes' }],
  ['files.write', '/tmp/canary', 'dead', { parents: 1 }],
  ['files.write', '/tmp/canary', 'dead', { user: 'a/b' }],
  ['files.write', '/tmp/canary', 'dead', { colour: 'red' }],
  ['files.write', '/tmp/canary', 5],
  ['files.write', '/tmp/canary', undefined],
  ['files.write', '/tmp/made/deep', 5, { parents: true }],
  ['files.write', '/tmp/canary', Promise.resolve('dead')],
  ['files.write', '/tmp/canary', strings()],
  ['files.stat', '/tmp/canary', { follow: 'no' }],
  ['files.list', '/tmp', { depth: 0 }],
  ['files.list', '/tmp', { depth: 65 }],
  ['files.mkdir', '/tmp/made', { mode: -1 }],
  ['files.mkdir', '/tmp/made', { parents: 'yes' }],
  ['files.mkdir', '/tmp/made', { colour: 'red' }],
  ['files.move', { from: '/tmp/canary' }],
  ['files.move', { from: '/tmp/canary', to: '/tmp/moved', colour: 'red' }],
  ['files.move', { from: '/tmp/canary', to: '/tmp/moved' }, { overwrite: 'no' }],
  ['files.remove', '/tmp/canary', { recursive: 'yes' }],
  ['files.watch', '/tmp', { recursive: 'yes' }],
  ['files.watch', '/tmp', { colour: 'red' }],
]

export function describeBadInput(factory: EngineFactory): void {
  describe('bad input', () => {
    const shared = useSharedBurrow(factory)
    const state = async () => {
      const contexts = await shared.guest.contexts.list()
      return {
        inside: await runPython(
          shared.guest,
          'import os\ncanary = globals().get("canary", "alive")\n' +
            'print(canary, sorted(os.listdir("/tmp")), sorted(os.listdir("/root")), open("/tmp/canary").read())',
        ),
        contexts: contexts.map(({ context, pid }) => `${context} ${pid}`),
        processes: await shared.guest.processes.list(),
      }
    }

    test.each([
      ['a run', RUNS],
      ['a query about runs', RUN_QUERIES],
      ['a context', CONTEXTS],
      ['a process', PROCESSES],
      ['a connected process', CONNECTED],
      ['a query about processes', PROCESS_QUERIES],
      ['a path', BAD_PATHS],
      ['the options of a file', BAD_FILE_OPTIONS],
    ])(
      'each malformed request for %s is refused as invalid_argument and changes nothing',
      async (_what, calls) => {
        await shared.guest.files.write('/tmp/canary', 'alive')
        const before = await state()
        const accepted: unknown[] = []
        for (const call of calls) {
          const code = await codeOf(shared.guest, call)
          if (code !== 'invalid_argument') accepted.push([call, code])
        }
        expect(accepted).toEqual([])
        expect(await state()).toEqual(before)
      },
    )

    test('a refusal names the field', async () => {
      const refused = shared.guest.runs.run({ code: '1', timeoutMs: -5 })
      await expect(refused).rejects.toMatchObject({
        name: 'DormouseError',
        message: expect.stringMatching(/^timeoutMs: .*-5/),
      })
    })

    test('a request that is too long is refused, and concurrent calls continue', async () => {
      const beside = shared.guest.runs.run({ code: 'import time; time.sleep(0.5); print("whole")' })
      const code = await codeOf(shared.guest, ['runs.run', { code: `canary = "${'x'.repeat(40 * MIB)}"` }])
      expect(code).toBe('invalid_argument')
      expect(await beside).toMatchObject({ stdout: 'whole\n', exitCode: 0 })
    })

    test('a request that cannot be written as JSON is refused, and the next one works', async () => {
      const circular: Record<string, unknown> = { code: '1' }
      circular['self'] = circular
      expect(await codeOf(shared.guest, ['runs.run', circular])).toBe('invalid_argument')
      expect(await codeOf(shared.guest, ['runs.run', { code: 5n }])).toBe('invalid_argument')
      expect(await runPython(shared.guest, 'print("fine")')).toBe('fine\n')
    })
  })
}

async function codeOf(guest: Guest, [method, ...args]: Call): Promise<unknown> {
  const [group, name] = method.split('.') as [Group, string]
  // The types forbid these calls, but JavaScript callers, or a server that fails to check its input, can make them.
  const loose = guest as unknown as LooseGuest
  try {
    const answer = loose[group][name]!(...args)
    const isStream = typeof answer === 'object' && answer !== null && Symbol.asyncIterator in answer
    return isStream ? await collect(answer as AsyncIterable<unknown>) : await answer
  } catch (error) {
    return error instanceof Error && 'code' in error ? error.code : error
  }
}

async function* strings() {
  yield 'dead'
}
