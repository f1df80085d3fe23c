import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keyCommand } from '@dormouse/cli'
import { createProgram, runClient } from '@dormouse/cli/client'
import type { Command } from 'commander'
import { afterAll, describe, expect, test } from 'vitest'
import { COMMANDS } from '../../setup/commands.mjs'
import { type Ended, runLauncher, type Typed, useCommandLine } from './command-line.ts'

const { stdin, stdout } = process
const io = { stdin, stdout, stderr: stdout, env: {}, signal: new AbortController().signal }
const directory = mkdtempSync(join(tmpdir(), 'dormouse-json-'))
afterAll(() => rmSync(directory, { recursive: true }))

/** Commands without subcommands, with their full names. */
function leaves(command: Command, path: readonly string[]): (readonly string[])[] {
  if (command.commands.length === 0) return [path]
  return command.commands.flatMap((below) => leaves(below, [...path, below.name()]))
}
const clientCommands = createProgram(io).commands.flatMap((command) => leaves(command, [command.name()]))

/** Arguments for each set-up command. setup/test-programs.test.ts covers `test`. */
const SETUP_WORDS: Record<string, string[][]> = {
  up: [['up']],
  test: [],
  doctor: [['doctor']],
  template: [['template', 'build']],
  cluster: [['cluster', 'dev']],
  // Tested below without the launcher, which might rebuild everything while other tests run.
  key: [],
  ...Object.fromEntries(['help', '--help', '-h', '--version'].map((word) => [word, [[word]]])),
}

function expectRefusal({ status, stdout: data, stderr }: Ended): void {
  expect({ status, data }).toEqual({ status: 2, data: '' })
  const { error } = JSON.parse(stderr)
  expect(error).toMatchObject({ code: 'usage', hint: expect.any(String) })
  expect(error.message).toContain('--no-such-flag')
}

describe('every command knows --json: it refuses an unknown flag in JSON', () => {
  test.each(clientCommands.map((words) => [words.join(' '), words] as const))('%s', async (_name, words) => {
    const texts = { stdout: '', stderr: '' }
    const output = (name: keyof typeof texts) => ({ write: (text: string) => (texts[name] += text) })
    const pretended = { ...io, stdout: output('stdout'), stderr: output('stderr') } as unknown as typeof io
    const status = await runClient({ args: [...words, '--json', '--no-such-flag'], io: pretended })
    expectRefusal({ status, ...texts })
  })

  test('the list has every set-up command', () => {
    expect(Object.keys(SETUP_WORDS).sort()).toEqual(Object.keys(COMMANDS).sort())
  })

  test.each(Object.values(SETUP_WORDS).flat())('%s %s', async (...words) => {
    const typed = words.filter((word) => word !== undefined)
    expectRefusal(await runLauncher([...typed, '--json', '--no-such-flag'], {}))
  })
})

test.each(['create', 'update', 'list', 'revoke'])(
  'key %s refuses an unknown flag in JSON too',
  async (action) => {
    const texts = { stdout: '', stderr: '' }
    const args = [action, '--json', '--no-such-flag']
    const status = await keyCommand({
      ...{ dataDir: directory, args },
      stdout: { write: (text) => (texts.stdout += text) },
      stderr: { write: (text) => (texts.stderr += text) },
    })
    expectRefusal({ status, ...texts })
  },
)

const cli = useCommandLine()
const file = (name: string, text: string) => {
  const path = join(directory, name)
  writeFileSync(path, text)
  return path
}
const PUBLIC_KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q someone'
const LISTEN = `import http.server, threading
threading.Thread(target=http.server.ThreadingHTTPServer(("127.0.0.1", 8000), http.server.SimpleHTTPRequestHandler).serve_forever).start()`
const MCP = { jsonrpc: '2.0', id: 1, method: 'tools/list' }

/** Stands for an id that only the server knows. */
const NEWEST_JOB = 'the newest job'
const SERVE = [
  '--template',
  'python',
  '--name',
  'web',
  '--port',
  '8000',
  '--start',
  'python3 -m http.server $PORT',
]

/** One use of each command, in an order in which each finds what it needs. */
const USES: readonly (readonly [string, readonly string[], Typed?])[] = [
  ['create', ['box']],
  ['ls', []],
  ['update', ['box', '--idle', '1h']],
  ['run', ['box', LISTEN]],
  ['port wait', ['box', '8000']],
  ['port ls', ['box']],
  ['port link', ['box', '8000']],
  ['port set', ['box', '8000', 'public']],
  ['forward', ['box', '0:8000'], { interruptAt: { shows: /localPort/ } }],
  ['exec', ['box', 'echo', 'a']],
  ['repl', ['box'], { input: '1 + 1\n' }],
  ['cp', [file('copied', 'text'), 'box:/root/']],
  ['mcp', ['--sandbox', 'box'], { input: `${JSON.stringify(MCP)}\n` }],
  ['standby', ['box']],
  ['resume', ['box']],
  ['fork', ['box']],
  ['snapshot create', ['box', '--name', 'one']],
  ['snapshot ls', []],
  ['snapshot verify', ['one']],
  ['rollback', ['box', 'one']],
  ['template create', ['mine', '--snapshot', 'one']],
  ['template ls', []],
  ['template show', ['mine']],
  ['template rm', ['mine']],
  ['snapshot rm', ['one']],
  ['volume create', ['shelf']],
  ['volume ls', []],
  ['volume update', ['shelf', '--size', '20GiB']],
  ['volume show', ['shelf']],
  ['volume clone', ['shelf', 'shelf-v1', '--read-only']],
  ['volume attach', ['box', 'shelf:/shelf']],
  ['volume detach', ['box', 'shelf']],
  ['volume cp', [file('put', 'text'), 'shelf:/put']],
  ['volume files', ['shelf']],
  ['volume rm-file', ['shelf', '/put']],
  ['volume rm', ['shelf', 'shelf-v1']],
  ['secret create', ['KEY', '--domain', 'example.com'], { input: 'sk-12345678' }],
  ['secret ls', []],
  ['secret set', ['KEY'], { input: 'sk-87654321' }],
  ['secret show', ['KEY']],
  ['secret give', ['box', 'KEY']],
  ['secret take', ['box', 'KEY']],
  ['secret rm', ['KEY']],
  ['ssh-key add', [file('key.pub', PUBLIC_KEY), '--name', 'mine']],
  ['ssh-key ls', []],
  ['ssh', ['box']],
  ['ssh-key rm', ['mine']],
  ['logs', ['box']],
  ['why', ['box']],
  ['show', ['box']],
  ['ledger', ['box']],
  ['network', ['box']],
  ['top', ['--once']],
  ['usage', []],
  ['tree', ['box']],
  ['open', ['--no-browser']],
  ['events', ['--after', '0'], { interruptAt: { shows: /"type"/ } }],
  ['vars', ['box']],
  ['server', []],
  ['schedule create', ['often', '@hourly', '--sandbox', 'box', '--run', '1']],
  ['schedule ls', []],
  ['schedule show', ['often']],
  ['schedule update', ['often', '--cron', '@daily']],
  ['schedule fire', ['often']],
  ['schedule rm', ['often']],
  ['webhook create', ['ci', 'https://example.com/hook', '--event', 'job.ended']],
  ['webhook ls', []],
  ['webhook show', ['ci']],
  ['webhook update', ['ci', '--off']],
  ['webhook rotate', ['ci']],
  ['webhook rm', ['ci']],
  ['job run', ['item', '--input', '1']],
  ['job ls', []],
  ['job show', [NEWEST_JOB]],
  ['job wait', [NEWEST_JOB]],
  ['job results', [NEWEST_JOB]],
  ['job logs', [NEWEST_JOB]],
  ['job cancel', [NEWEST_JOB]],
  ['job rm', [NEWEST_JOB]],
  ['deploy', SERVE],
  ['deploy', SERVE],
  ['service ls', []],
  ['service show', ['web']],
  ['service logs', ['web']],
  ['service update', ['web', '--max', '2']],
  ['service rollback', ['web']],
  ['service rm', ['web']],
  ['scrub show', []],
  ['scrub start', []],
  ['completion', ['bash']],
  ['rm', ['box']],
]
/** Commands that other tests use with --json. */
const ELSEWHERE = ['demo', 'promote', 'sh', 'ssh-key confirm', 'template debug']
/** Commands that no test uses with --json: what they need, a receiver, a second key or host, takes long to make. */
const UNUSED = [...['webhook test', 'volume share', 'volume unshare', 'nodes', 'move', 'cordon', 'drain']]

describe('with --json, commands print JSON', () => {
  test('the list has every client command', () => {
    const known = [...USES.map(([path]) => path), ...ELSEWHERE, ...UNUSED]
    expect([...new Set(known)].sort()).toEqual(clientCommands.map((words) => words.join(' ')).sort())
  })

  test.each(USES)('%s', async (path, wanted, typed) => {
    const { items } = wanted.includes(NEWEST_JOB) ? await cli.server.ok('/v1/jobs') : { items: [] }
    const args = wanted.map((arg) => (arg === NEWEST_JOB ? items[0].id : arg))
    const { status, stdout: data, stderr } = await cli.run([...path.split(' '), '--json', ...args], typed)
    expect(stderr).toBe('')
    expect(status).toBe(typed?.interruptAt === undefined ? 0 : 130)
    expect(documents(data)).not.toHaveLength(0)
  })

  test('sh, which needs a terminal', async () => {
    await cli.json(['create', 'shell'])
    const terminal = cli.terminal(['sh', '--json', 'shell', '--', 'true'])
    await terminal.shows(/\{"processId":"pr-\w+","pid":\d+,"how":"exited","exitCode":0\}/)
    expect(await terminal.status()).toBe(0)
    await cli.json(['rm', 'shell'])
  })

  test('help and --version', async () => {
    const told = async (...args: string[]) => JSON.parse((await cli.run([...args, '--json'])).stdout)
    const { commands } = await told('help')
    const usages = commands.map(({ usage }: { usage: string }) => usage)
    expect(usages).toEqual(expect.arrayContaining(['up', 'create [name]', 'update <sandbox>']))
    expect(commands).toContainEqual(expect.objectContaining({ usage: 'nodes', group: 'Hosts of a cluster' }))
    expect(await told('--version')).toEqual({ version: expect.stringMatching(/^\d+\.\d+\.\d+/) })
  })

  const told = async (args: readonly string[]) => {
    const { status, stdout: data, stderr } = await cli.run(args)
    expect({ status, stderr }, args.join(' ')).toEqual({ status: 0, stderr: '' })
    return JSON.parse(data)
  }

  test('the help of one command', async () => {
    for (const args of [
      ['help', 'update', '--json'],
      ['update', '--help', '--json'],
      ['update', '--json', '-h'],
    ])
      expect(await told(args)).toMatchObject({
        usage: 'dormouse update [options] <sandbox>',
        summary: expect.stringContaining('change'),
        arguments: [{ name: 'sandbox', required: true }],
        options: expect.arrayContaining([expect.objectContaining({ flags: '--no-name' })]),
        commands: [],
      })
    const { commands, note } = await told(['help', 'template', '--json'])
    expect(commands.map(({ usage }: { usage: string }) => usage.split(/[ |]/)[0])).toContain('show')
    expect(note).toContain('template build FILE')
    const { examples } = await told(['template', 'create', '--help', '--json'])
    expect(examples[0]).toMatch(/^dormouse template create /)
    for (const args of [
      ['up', '--help'],
      ['help', 'up'],
    ])
      expect(await told([...args, '--json'])).toEqual({
        commands: [expect.objectContaining({ usage: 'up' })],
      })
  })

  test.each(['template', 'volume', 'secret', 'ssh-key', 'port'])('%s without a subcommand', async (group) => {
    const { status, stdout: data, stderr } = await cli.run([group, '--json'])
    expect({ status, data }).toEqual({ status: 2, data: '' })
    const { error } = JSON.parse(stderr)
    expect(error).toMatchObject({ code: 'usage', hint: expect.stringContaining(`dormouse ${group} --help`) })
    expect(error.message).toMatch(/needs one of .*\bls\b/)
  })

  test('--json, --data and --url may stand anywhere', async () => {
    const { stateDir } = cli.server.factory
    for (const args of [
      ['--json', 'snapshot', 'ls'],
      ['snapshot', '--json', 'ls'],
      ['--data', stateDir, 'snapshot', 'ls', '--json'],
      [`--data=${stateDir}`, '--json', 'snapshot', 'ls'],
      ['--url', cli.server.url, 'snapshot', '--json', 'ls'],
    ])
      expect(await told(args), args.join(' ')).toEqual({ snapshots: expect.any(Array) })
    expect(await told(['--json', '--data', stateDir, 'template', 'ls'])).toHaveProperty('templates')
  })

  test('a server reports when it is ready, and its address', async () => {
    const { lines, url } = cli.server
    const reports = lines
      .filter((line) => line.startsWith('report '))
      .map((line) => JSON.parse(line.slice('report '.length)))
    expect(reports).toEqual([
      expect.objectContaining({
        type: 'ready',
        url,
        version: expect.any(String),
        ssh: { host: '127.0.0.1', port: expect.any(Number) },
        dataDir: cli.server.factory.stateDir,
        sandboxes: { running: 0, standby: 0, lost: 0, removed: 0 },
        notes: expect.any(Array),
        apiKey: expect.stringMatching(/^dm_/),
      }),
    ])
  })
})

/** Parses one JSON value, or one per line. */
function documents(text: string): unknown[] {
  try {
    return [JSON.parse(text)]
  } catch {
    return text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
  }
}
