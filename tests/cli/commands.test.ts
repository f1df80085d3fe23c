import { spawnSync } from 'node:child_process'
import { rename } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, test } from 'vitest'
import { useCommandLine } from './command-line.ts'

const cli = useCommandLine()
const launcher = fileURLToPath(new URL('../../dormouse', import.meta.url))
beforeAll(async () => {
  await cli.json(['create', 'alpha', '--idle', '1h'])
  await cli.json(['create', 'alphabet', '--metadata', 'team=blue', '--idle', '1h', '--memory', '512MiB'])
})

describe('names', () => {
  test('a sandbox is found by name, id, and a prefix of either, also without sb-', async () => {
    const { sandboxes } = await cli.json(['ls'])
    const { id } = sandboxes.find(({ name }: { name: string }) => name === 'alphabet')
    for (const ref of ['alphabet', 'alphab', id, id.slice(0, 12), id.slice(3, 12)]) {
      expect((await cli.json(['why', ref])).state).toBe('running')
      const { stdout } = await cli.run(['run', ref, 'import os; os.uname().nodename and 1'])
      expect(stdout).toBe('1\n')
    }
    // An exact name wins over a prefix of another.
    expect((await cli.json(['resume', 'alpha'])).name).toBe('alpha')
  })

  test('an ambiguous prefix is refused with all matches and status 2; an unknown name points to the list', async () => {
    const several = await cli.run(['resume', 'alph'])
    expect(several).toMatchObject({ status: 2, stdout: '' })
    expect(several.stderr).toMatch(
      /"alph" could be .*alpha \(sb-.*alphabet \(sb-|"alph" could be .*alphabet \(sb-.*alpha \(sb-/,
    )
    const none = await cli.run(['resume', 'omega'])
    expect(none).toMatchObject({ status: 1, stdout: '' })
    expect(none.stderr).toContain('There is no sandbox "omega"\n  Run `dormouse ls` for a list.')
    expect((await cli.run(['resume', '../keys'])).status).toBe(2)
    const json = await cli.run(['resume', 'omega', '--json'])
    expect(JSON.parse(json.stderr)).toMatchObject({ error: { code: 'not_found', hint: expect.any(String) } })
  })
})

describe('run', () => {
  test('shows output as it arrives and results as text, keeps variables, and exits with the status of the code', async () => {
    expect(await cli.run(['run', 'alpha', 'x = 6; print("out")'])).toEqual({
      status: 0,
      stdout: 'out\n',
      stderr: '',
    })
    expect(await cli.run(['run', 'alpha', 'x * 7'])).toEqual({ status: 0, stdout: '42\n', stderr: '' })
    const failed = await cli.run(['run', 'alpha', '1/0'])
    expect(failed).toMatchObject({ status: 1, stdout: '' })
    expect(failed.stderr).toContain('ZeroDivisionError')
    expect((await cli.run(['run', 'alpha', 'raise SystemExit(9)'])).status).toBe(9)
    expect((await cli.run(['run', 'alpha', '-l', 'bash', 'echo $0; exit 4'])).status).toBe(4)
    expect((await cli.run(['run', 'alpha', '-'], { input: 'print("piped")' })).stdout).toBe('piped\n')
    expect((await cli.run(['run', 'alpha'], { input: 'print("piped too")' })).stdout).toBe('piped too\n')
    expect(await cli.json(['run', 'alpha', 'x'])).toMatchObject({ text: '6', exitCode: 0, stdout: '' })
  })

  test('--new leaves no sandbox behind, also when the code fails', async () => {
    const before = (await cli.json(['ls', '-q'])).length
    expect((await cli.run(['run', '--new', 'print(1 + 1)'])).stdout).toBe('2\n')
    expect((await cli.run(['run', '--new', 'raise SystemExit(3)'])).status).toBe(3)
    expect((await cli.json(['ls', '-q'])).length).toBe(before)
  })

  test('Ctrl-C interrupts the code, shows its last output, and exits with 130; the context survives', async () => {
    const code = 'y = 1; import time; print("begun", flush=True); time.sleep(1000)'
    const stopped = await cli.run(['run', 'alpha', code], { interruptAt: { shows: /begun/ } })
    expect(stopped.status).toBe(130)
    expect(stopped.stderr).toContain('KeyboardInterrupt')
    expect((await cli.run(['run', 'alpha', 'y'])).stdout).toBe('1\n')
  })

  test('--timeout interrupts the code', async () => {
    const { status, stderr } = await cli.run(['run', 'alpha', '--timeout', '300ms', 'while True: pass'])
    expect(status).not.toBe(0)
    expect(stderr).toContain('interrupted after its timeout')
  })
})

describe('exec', () => {
  test('streams stdin, stdout and stderr, and exits with the status of the program', async () => {
    const { status, stdout, stderr } = await cli.run(
      ['exec', 'alpha', '-w', '/tmp', '-e', 'WHO=me', '--', 'bash', '-c', 'cat; pwd; echo $WHO >&2; exit 7'],
      { input: 'fed\n' },
    )
    expect({ status, stdout, stderr }).toEqual({ status: 7, stdout: 'fed\n/tmp\n', stderr: 'me\n' })
    const megabytes = 'x'.repeat(3_000_000)
    expect((await cli.run(['exec', 'alpha', 'wc', '-c'], { input: megabytes })).stdout).toBe('3000000\n')
    expect((await cli.run(['exec', 'alpha', '--', 'true'], { input: megabytes })).status).toBe(0)
    expect((await cli.run(['exec', 'alpha', '--', 'no-such-program'])).status).toBe(127)
    const result = await cli.run(['exec', '--json', 'alpha', 'cat'], { input: 'told' })
    expect(JSON.parse(result.stdout)).toMatchObject({ stdout: 'told', exitCode: 0 })
  })

  test('Ctrl-C sends SIGINT to the program, and the exit status is 130', async () => {
    const program = "trap 'echo bye; exit 5' INT; echo begun; while :; do sleep 0.05; done"
    const { status, stdout } = await cli.run(['exec', 'alpha', '--', 'bash', '-c', program], {
      interruptAt: { shows: /begun/ },
    })
    expect(stdout).toBe('begun\nbye\n')
    expect(status).toBe(130)
  })
})

test('a context is created on first use, and has its own variables', async () => {
  const run = async (...args: string[]) => (await cli.run(['run', 'alpha', ...args])).stdout
  await run('mine = 1')
  expect(await run('--context', 'other', 'mine = 2; print(mine)')).toBe('2\n')
  expect(await run('--context', 'other', 'print(mine)')).toBe('2\n')
  expect(await run('print(mine)')).toBe('1\n')
  const { stdout } = await cli.run(['repl', 'alpha', '--context', 'third'], { input: 'mine = 3\nmine\n' })
  expect(stdout).toBe('3\n')
})

describe('when the reader of the output goes away', () => {
  const untilOne = (args: string, to = '') =>
    spawnSync('bash', ['-o', 'pipefail', '-c', `${launcher} ${args} ${to} | head -1`], {
      encoding: 'utf8',
      env: cli.env,
      timeout: 30_000,
    })
  const FOREVER = `'while True: print("more", flush=True)'`

  test('run and exec end what they started, as a local pipe does', async () => {
    expect(untilOne(`run alpha ${FOREVER}`)).toMatchObject({ status: 0, stdout: 'more\n', stderr: '' })
    expect(untilOne('exec alpha yes')).toMatchObject({ status: 0, stdout: 'y\n', stderr: '' })
    await expect.poll(async () => (await cli.run(['exec', 'alpha', 'pgrep', '-x', 'yes'])).status).toBe(1)
    // This run waits for the one before it.
    const { stdout } = await cli.run(['run', 'alpha', 'print("free")', '--timeout', '20s'])
    expect(stdout).toBe('free\n')
  })

  test('run --new deletes its sandbox, also when the reader of stderr goes away', async () => {
    const before = (await cli.json(['ls'])).sandboxes.length
    const loud = `'import sys\nwhile True: print("more", file=sys.stderr, flush=True)'`
    expect(untilOne(`run --new ${FOREVER}`)).toMatchObject({ status: 0, stdout: 'more\n', stderr: '' })
    expect(untilOne(`run --new $${loud}`, '2>&1')).toMatchObject({ status: 0, stdout: 'more\n' })
    expect((await cli.json(['ls'])).sandboxes).toHaveLength(before)
  })
})

test('completion in a real bash offers the names that fit each argument', async () => {
  await cli.json(['volume', 'create', 'shelf'])
  await cli.json(['snapshot', 'alpha', '--name', 'saved'])
  const complete = (...words: string[]) => {
    const code = `source <("$1" completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dormouse; printf '%s\\n' "\${COMPREPLY[@]}"`
    const { stdout } = spawnSync('bash', ['-c', code, 'bash', launcher, ...words], {
      encoding: 'utf8',
      env: cli.env,
    })
    return stdout.trim().split('\n')
  }
  expect(complete('rm', 'alphab')).toEqual(['alphabet'])
  expect(complete('exec', 'alpha', '')).toEqual([''])
  expect(complete('--json', 'rollback', 'alpha', 'sa')).toEqual(['saved'])
  expect(complete('snapshot', 'verify', 'sa')).toEqual(['saved'])
  expect(complete('volume', 'rm', '')).toEqual(['shelf'])
  expect(complete('template', 'show', 'py')).toEqual(['python'])
  expect(complete('cp', 'alphab')).toEqual(['alphabet'])
  await cli.json(['volume', 'rm', 'shelf'])
  await cli.json(['snapshot', 'rm', 'saved'])
})

describe('lifecycle', () => {
  test('standby, resume, snapshot, rollback and fork keep or restore variables', async () => {
    await cli.run(['run', 'alphabet', 'v = "first"'])
    expect(await cli.json(['standby', 'alphabet', '--stored'])).toMatchObject({
      state: 'standby',
      tier: 'stored',
    })
    expect(await cli.json(['ls', '--state', 'standby'])).toMatchObject({ sandboxes: [{ name: 'alphabet' }] })
    expect(await cli.json(['resume', 'alphabet'])).toMatchObject({ state: 'running' })
    const snapshot = await cli.json(['snapshot', 'alphabet', '--name', 'one'])
    await cli.run(['run', 'alphabet', 'v = "second"'])
    await cli.json(['rollback', 'alphabet', 'one'])
    expect((await cli.run(['run', 'alphabet', 'print(v)'])).stdout).toBe('first\n')
    const { children } = await cli.json(['fork', 'alphabet', '-n', '2'])
    expect(children).toHaveLength(2)
    const ids = children.map(({ id }: { id: string }) => id)
    expect((await cli.run(['run', ids[1], 'print(v)'])).stdout).toBe('first\n')
    expect(await cli.json(['rm', ...ids])).toEqual({ deleted: ids })
    expect(
      (await cli.json(['snapshot', 'ls', 'alphabet'])).snapshots.map(({ id }: { id: string }) => id),
    ).toContain(snapshot.id)
  })

  test('snapshot verify checks the named snapshots, or all, and reports each damaged one', async () => {
    await cli.run(['create', 'saved'])
    const ids = []
    for (const name of ['good', 'bad']) ids.push((await cli.json(['snapshot', 'saved', '--name', name])).id)
    const [good, bad] = ids
    expect(await cli.json(['snapshot', 'verify', 'good', 'bad'])).toEqual({
      snapshots: ids.map((id) => ({ id, ok: true })),
    })
    const { images } = cli.server.factory.layout.snapshot(bad)
    await rename(images, `${images}.away`)
    const told = await cli.run(['snapshot', 'verify', 'bad', 'good'])
    expect(told.status).toBe(1)
    expect(told.stdout).toMatch(new RegExp(`^${bad}  damaged  .* is missing\\.\n${good}  good\n$`))
    expect(told.stderr).toBe('1 of 2 snapshots cannot be restored.\n')
    const { status, stdout, stderr } = await cli.run(['snapshot', 'verify', '--json'])
    expect({ status, stderr }).toEqual({ status: 1, stderr: '' })
    const all = JSON.parse(stdout).snapshots
    expect(all).toContainEqual({ id: good, ok: true })
    expect(all).toContainEqual({
      id: bad,
      ok: false,
      error: expect.objectContaining({ code: 'snapshot_unusable' }),
    })
    await rename(`${images}.away`, images)
    await cli.json(['rm', 'saved'])
    await cli.json(['snapshot', 'rm', 'good', 'bad'])
  })

  test('secrets are read from standard input, shown without their value, given and taken', async () => {
    const typed = { input: 'sk-live-12345678\n' }
    expect((await cli.run(['secret', 'create', 'API_KEY'], typed)).stderr).toContain('--domain')
    const made = await cli.json(['secret', 'create', 'API_KEY', '--domain', 'api.example.com'], typed)
    expect(made).toMatchObject({ name: 'API_KEY', domains: ['api.example.com'] })
    const { id } = await cli.json(['create', 'holder', '--secret', 'API_KEY'])
    const { stdout } = await cli.run(['exec', 'holder', '--', 'printenv', 'API_KEY'])
    expect(stdout).toBe(`${made.placeholder}\n`)
    await cli.json(['secret', 'set', 'API_KEY'], { input: 'sk-live-87654321' })
    await cli.json(['secret', 'set', 'API_KEY', '--domain', '*.example.com'])
    expect(await cli.json(['secret', 'show', 'API_KEY'])).toMatchObject({
      ...{ placeholder: made.placeholder, domains: ['*.example.com'], usedBy: [id] },
    })
    expect((await cli.run(['secret', 'ls'])).stdout).toMatch(/API_KEY +\*\.example\.com +1 /)
    expect((await cli.run(['secret', 'rm', 'API_KEY'])).stderr).toContain(id)
    expect((await cli.json(['secret', 'take', 'holder', 'API_KEY'])).secrets).toEqual([])
    expect((await cli.json(['secret', 'give', 'holder', 'API_KEY'])).secrets).toEqual(['API_KEY'])
    expect(await cli.json(['secret', 'rm', '-f', 'API_KEY'])).toEqual({ deleted: ['API_KEY'] })
    await cli.json(['rm', 'holder'])
    const everything = await cli.run(['secret', 'ls', '--json'])
    expect(everything.stdout + everything.stderr).not.toContain('sk-live')
  })

  test('rm deletes nothing when one sandbox does not exist, and ignores that with -f', async () => {
    await cli.json(['create', 'doomed'])
    expect((await cli.run(['rm', 'doomed', 'absent'])).status).toBe(1)
    expect(await cli.json(['ls', '-q'])).toContain('doomed')
    expect((await cli.run(['rm', '-f', 'doomed', 'absent'])).status).toBe(0)
    expect(await cli.json(['ls', '-q'])).not.toContain('doomed')
  })

  test('create takes its policy from flags', async () => {
    await cli.json(['volume', 'create', 'shelf'])
    const made = await cli.json([
      ...[
        'create',
        'made',
        '--ephemeral',
        '-e',
        'A=1',
        '-e',
        'B=x=y',
        '-v',
        'shelf:/shelf:ro',
        '--cpus',
        '0.5',
      ],
      ...['--idle', '2m', '--expires-idle', '7d', '--pids', '100'],
    ])
    expect(made).toMatchObject({
      name: 'made',
      ephemeral: true,
      idleTimeoutMs: 120_000,
      expires: { idleMs: 604_800_000 },
      limits: { cpus: 0.5, pids: 100 },
      volumes: [{ volume: 'shelf', path: '/shelf', readOnly: true }],
    })
    expect((await cli.run(['exec', 'made', '--', 'sh', '-c', 'echo $A $B'])).stdout).toBe('1 x=y\n')
    expect((await cli.json(['volume', 'show', 'shelf'])).usedBy).toEqual([made.id])
    const taken = await cli.run(['create', 'made'])
    expect(taken.status).toBe(1)
    expect(taken.stderr).toContain('--get-or-create')
    expect((await cli.json(['create', 'made', '--get-or-create'])).id).toBe(made.id)
    await cli.json(['rm', 'made'])
    expect(await cli.json(['volume', 'rm', 'shelf'])).toEqual({ deleted: ['shelf'] })
  })

  test('the network policy is set by create, and shown and changed by network', async () => {
    const made = await cli.json(['create', 'reach', '--allow', 'example.com:443', '--allow', '*.example.org'])
    expect(made.network).toEqual({ mode: 'allow', allow: ['example.com:443', '*.example.org'] })
    expect((await cli.run(['network', 'reach'])).stdout).toContain('example.com:443 *.example.org')
    expect(await cli.json(['network', 'reach', '--mode', 'none'])).toMatchObject({ mode: 'none', allow: [] })
    const again = await cli.json(['network', 'reach', '--allow', '11.22.33.0/24'])
    expect(again).toMatchObject({ mode: 'allow', allow: ['11.22.33.0/24'], denied: [] })
    const both = await cli.run(['network', 'reach', '--mode', 'none', '--allow', 'example.com'])
    expect(both).toMatchObject({ status: 2, stderr: expect.stringContaining('contradict') })
    const broken = await cli.run(['network', 'reach', '--allow', 'https://example.com/'])
    expect(broken).toMatchObject({ status: 1, stderr: expect.stringContaining('allow') })
    expect((await cli.json(['create', 'alone', '--network', 'none'])).network.mode).toBe('none')
    await cli.json(['rm', 'reach', 'alone'])
  })
})

describe('reports', () => {
  test('logs show past runs, find one by a prefix of its id, and follow runs that start later', async () => {
    await cli.json(['create', 'logged'])
    const { runId } = await cli.json(['run', 'logged', 'print("early")'])
    await cli.run(['run', 'logged', 'print("late")'])
    expect((await cli.run(['logs', 'logged'])).stdout).toBe('early\nlate\n')
    expect((await cli.run(['logs', 'logged', '-n', '1'])).stdout).toBe('late\n')
    expect((await cli.run(['logs', 'logged', runId.slice(0, 14)])).stdout).toBe('early\n')
    const following = cli.run(['logs', '-f', 'logged'], { interruptAt: { shows: /later/ } })
    await new Promise((resolve) => setTimeout(resolve, 1500))
    await cli.run(['run', 'logged', 'print("even later")'])
    const { status, stdout } = await following
    expect(stdout).toBe('early\nlate\neven later\n')
    expect(status).toBe(130)
    const { stdout: lines } = await cli.run(['logs', 'logged', '--json'])
    const events = lines
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(events.filter(({ type }) => type === 'stdout').map(({ data }) => data.trim())).toEqual([
      'early',
      'late',
      'even later',
    ])
  })

  test('top shows state, private and shared memory and the last wake; live, it redraws on the alternate screen', async () => {
    await cli.json(['standby', 'alpha', '--stored'])
    await cli.json(['resume', 'alpha'])
    const { sandboxes } = await cli.json(['top', '--once'])
    const row = sandboxes.find(({ info }: { info: { name: string } }) => info.name === 'alpha')
    expect(row).toMatchObject({
      usage: { memoryBytes: expect.any(Number) },
      memory: { privateBytes: expect.any(Number), sharedBytes: expect.any(Number), at: expect.any(String) },
      lastWake: { tier: 'stored', cause: 'resume' },
    })
    const { stdout } = await cli.run(['top', '--once'])
    expect(stdout).toMatch(
      /NAME +STATE +MEMORY +PRIVATE +SHARED[\s\S]*alpha +running +[\d.]+ MB +[\d.]+ MB +[\d.]+ MB/,
    )
    const first = (await cli.json(['top', '--once', '--lines', '1'])).sandboxes
    expect(first).toHaveLength(1)
    expect(first[0].info.state).toBe('running')
    const terminal = cli.terminal(['top'])
    await terminal.shows(/\[\?1049h/)
    await terminal.shows(/alpha[\s\S]*alpha/)
    terminal.type('\x03')
    await terminal.shows(/\[\?1049l/)
    expect(await terminal.status()).toBe(130)
  })

  test('why, usage, template ls and volume ls are tables for people and JSON for programs', async () => {
    expect((await cli.run(['why', 'alpha'])).stdout).toMatch(
      /it sleeps in (5\d|60) min\.\nsleeps +in \d+ min[\s\S]*WHEN +EVENT[\s\S]*created/,
    )
    expect((await cli.json(['why', 'alpha'])).ledger.length).toBeGreaterThan(0)
    expect((await cli.run(['usage'])).stdout).toMatch(/SANDBOX +RUNNING[\s\S]*alpha[\s\S]*total/)
    expect((await cli.json(['usage', 'alpha'])).sandboxes).toHaveLength(1)
    expect((await cli.run(['template', 'ls'])).stdout).toMatch(/python +ready +built_in/)
    expect((await cli.json(['template', 'list'])).templates[0]).toMatchObject({ name: 'python' })
    const { state, materials } = await cli.json(['template', 'show', 'python'])
    expect(state).toBe('ready')
    expect((await cli.json(['template', 'show', 'python', '--materials'])).items).toHaveLength(
      materials.count,
    )
    expect((await cli.run(['template', 'show', 'python'])).stdout).toContain(materials.sha256)
    expect((await cli.run(['template', 'show', 'python', '--materials'])).stdout).toMatch(
      /TYPE +NAME[\s\S]*deb +bash .* [0-9a-f]{64}\n/,
    )
    expect(await cli.json(['volume', 'ls'])).toEqual({ volumes: [] })
  })

  test('a template is made from a snapshot by its name, used, and deleted', async () => {
    await cli.run(['run', 'alpha', 'ready = "to go"'])
    await cli.json(['snapshot', 'create', 'alpha', '--name', 'loaded'])
    expect(await cli.json(['template', 'create', 'mine', '--snapshot', 'loaded'])).toMatchObject({
      state: 'ready',
    })
    expect((await cli.run(['run', '--new', '--template', 'mine', 'print(ready)'])).stdout).toBe('to go\n')
    expect(await cli.json(['template', 'rm', 'mine'])).toEqual({ deleted: ['mine'] })
  })

  test('a template is built by commands, and a failed build shows its log', async () => {
    const built = ['template', 'create', 'built', '--from', 'python', '--network', 'none', '--run', 'true']
    expect((await cli.run(built)).stdout).toBe('built\n')
    const failed = await cli.run(['template', 'create', 'broken', '--run', 'echo the reason; exit 3'])
    expect(failed.status).toBe(1)
    expect(failed.stderr).toMatch(/the reason\n[\s\S]*command 1 of 1: .*exit code 3/)
    expect((await cli.run(['template', 'show', 'broken'])).stdout).toMatch(/failed[\s\S]*the reason/)
    expect(await cli.json(['template', 'rm', 'built', 'broken'])).toEqual({ deleted: ['built', 'broken'] })
  })
})
