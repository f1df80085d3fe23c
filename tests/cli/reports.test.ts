import { beforeAll, describe, expect, test } from 'vitest'
import { useCommandLine } from './command-line.ts'

const cli = useCommandLine()
beforeAll(async () => {
  await cli.json(['create', 'box', '--idle', '1h'])
})

describe('top', () => {
  test('ends with q, and restores the terminal', async () => {
    const terminal = cli.terminal(['top'])
    await terminal.shows(/box +running[\s\S]*q: quit/)
    expect(await terminal.modes()).toEqual({ echo: false, canonical: false })
    terminal.type('q')
    await terminal.shows(/\[\?1049l/)
    expect(await terminal.status()).toBe(0)
  })

  test('has no warning about many listeners when it shows many sandboxes', async () => {
    const { children } = await cli.json(['fork', 'box', '-n', '6'])
    expect(await cli.run(['top', '--once'])).toMatchObject({ status: 0, stderr: '' })
    await cli.json(['rm', ...children.map(({ id }: { id: string }) => id)])
  })
})

test('show has everything about a sandbox, and does not wake it', async () => {
  const flags = ['--memory', '512MiB', '--metadata', 'team=blue', '--idle', '5m', '--network', 'none']
  const { id } = await cli.json(['create', 'shown', ...flags])
  const { runId } = JSON.parse((await cli.run(['run', 'shown', 'raise SystemExit(3)', '--json'])).stdout)
  await cli.json(['snapshot', 'create', 'shown', '--name', 'first'])
  const awake = await cli.json(['show', 'shown'])
  expect(awake).toMatchObject({
    ...{ id, name: 'shown', state: 'running', why: { state: 'running' } },
    usage: { memoryBytes: expect.any(Number), oomKills: 0 },
    runs: [{ runId, exitCode: 3 }],
  })
  await cli.json(['standby', 'shown', '--stored'])
  const { stdout, stderr } = await cli.run(['show', 'shown'])
  expect(stderr).toBe('')
  for (const line of [
    /^state +standby \(stored\), for \d+ s$/m,
    /^sleeps +after 5m without work$/m,
    /^memory +at most 537 MB$/m,
    /^network +none$/m,
    /^labels +team=blue$/m,
    /^(snapshots)? +first, full, .* ago$/m,
    new RegExp(`^latest runs +${runId}, default, .*, exit status 3: raise SystemExit\\(3\\)$`, 'm'),
  ])
    expect(stdout).toMatch(line)
  expect((await cli.json(['why', 'shown'])).state).toBe('standby')
})

describe('ledger', () => {
  test('shows what happened to a sandbox with its cause', async () => {
    await cli.json(['create', 'kept', '--idle', '1h'])
    await cli.json(['standby', 'kept', '--stored'])
    await cli.json(['resume', 'kept'])
    const { stdout } = await cli.run(['ledger', 'kept'])
    expect(stdout).toMatch(/^TIME +EVENT +TIER +CAUSE +TOOK +SIZE\n[-\dT:]+Z +created /)
    expect(stdout).toMatch(/Z +woke +stored +resume +[\d.]+ m?s/)
    const entries = async (...flags: string[]) =>
      (await cli.run(['ledger', 'kept', '--json', ...flags])).stdout
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line))
    expect((await entries())[0]).toMatchObject({ event: 'created' })
    expect(await entries('-n', '1')).toEqual([expect.objectContaining({ event: 'woke', cause: 'resume' })])
    expect(await entries('--since', '0')).toEqual([])
    expect((await entries('--since', '1h')).length).toBeGreaterThan(2)
    expect((await cli.run(['ledger', 'kept', '--since', 'soon'])).status).toBe(2)
  })

  test('follows with -f', async () => {
    const terminal = cli.terminal(['ledger', 'kept', '-f', '-n', '1'])
    await terminal.shows(/woke/)
    await cli.json(['snapshot', 'create', 'kept'])
    await terminal.shows(/Z +snapshot /)
    terminal.type('\x03')
    expect(await terminal.status()).toBe(130)
  })
})

test('logs has the time, outcome and code of each run on stderr, and --since leaves out older ones', async () => {
  const { runId } = await cli.json(['run', 'box', 'print("first")'])
  await cli.run(['run', 'box', 'if True:\n    print("second")\nraise SystemExit(4)'])
  const { stdout, stderr } = await cli.run(['logs', 'box'])
  expect(stdout).toBe('first\nsecond\n')
  expect(stderr).toMatch(
    new RegExp(
      `^==> ${runId} [-\\dT:]+Z \\(\\d+ s ago\\) python in default: exit status 0\n` +
        '>>> print\\("first"\\)\n==> .* status 4\n' +
        '>>> if True:\n\\.\\.\\.     print\\("second"\\)\n\\.\\.\\. raise SystemExit\\(4\\)\n$',
    ),
  )
  expect((await cli.run(['logs', 'box', '--since', '1h'])).stdout).toBe('first\nsecond\n')
  expect(await cli.run(['logs', 'box', '--since', '0'])).toMatchObject({
    ...{ status: 0, stdout: '', stderr: expect.stringContaining('since then') },
  })
})

test('logs shows the beginning of long code, and says what is missing', async () => {
  const long = `${Array.from({ length: 30 }, (_, n) => `x${n} = ${n}`).join('\n')}\n`
  const { runId } = await cli.json(['run', 'box', long])
  const listed = await cli.run(['logs', 'box', '-n', '1'])
  expect(listed.stderr).toMatch(/\n\.\.\. x19 = 19\n… and 10 more lines\n$/)
  expect((await cli.run(['logs', 'box', runId])).stderr).toMatch(/\n\.\.\. x29 = 29\n$/)
  await cli.run(['run', 'box', '-f', '-', '-l', 'bash'], { input: `echo hi # ${'ä'.repeat(5000)}\n` })
  const cut = await cli.run(['logs', 'box', '-n', '1'])
  expect(cut.stderr).toMatch(/\n\$ echo hi # ä+\n… the rest of the code was not kept\n$/)
  const [start] = (await cli.run(['logs', 'box', '-n', '1', '--json'])).stdout.split('\n')
  expect(JSON.parse(start ?? '')).toMatchObject({ type: 'start', language: 'bash', isCodeCut: true })
  expect(Buffer.byteLength(JSON.parse(start ?? '').code)).toBeLessThanOrEqual(4096)
})

test('usage sums up deleted sandboxes in one line', async () => {
  await cli.json(['create', 'gone-1'])
  await cli.json(['create', 'gone-2'])
  await cli.json(['rm', 'gone-1', 'gone-2'])
  const { stdout } = await cli.run(['usage'])
  expect(stdout).toMatch(/^box .*\n(.*\n)*\d+ deleted .*\ntotal /m)
  expect(stdout).not.toContain('gone-1')
  expect((await cli.run(['usage', '--all'])).stdout).toMatch(/^gone-1 \(deleted\) /m)
  const { sandboxes } = await cli.json(['usage'])
  expect(sandboxes.filter(({ deleted }: { deleted: boolean }) => deleted).length).toBeGreaterThan(1)
})

describe('reports for people and programs', () => {
  test('logs show past runs, find one by a prefix of its id, and follow runs that start later', async () => {
    await cli.json(['create', 'logged'])
    const { runId } = await cli.json(['run', 'logged', 'print("early")'])
    await cli.run(['run', 'logged', 'print("late")'])
    expect((await cli.run(['logs', 'logged'])).stdout).toBe('early\nlate\n')
    expect((await cli.run(['logs', 'logged', '-n', '1'])).stdout).toBe('late\n')
    expect((await cli.run(['logs', 'logged', runId.slice(0, 14)])).stdout).toBe('early\n')
    const following = cli.terminal(['logs', '-f', 'logged'])
    await following.shows(/early[\s\S]*late\r\n/)
    await cli.run(['run', 'logged', 'print("even later")'])
    await following.shows(/even later\r\n/)
    following.type('\x03')
    expect(await following.status()).toBe(130)
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
    await cli.json(['standby', 'box', '--stored'])
    await cli.json(['resume', 'box'])
    const { sandboxes } = await cli.json(['top', '--once'])
    const row = sandboxes.find(({ info }: { info: { name: string } }) => info.name === 'box')
    expect(row).toMatchObject({
      usage: { memoryBytes: expect.any(Number) },
      memory: { privateBytes: expect.any(Number), sharedBytes: expect.any(Number), at: expect.any(String) },
      lastWake: { tier: 'stored', cause: 'resume' },
    })
    const { stdout } = await cli.run(['top', '--once'])
    expect(stdout).toMatch(
      /NAME +STATE +MEMORY +PRIVATE +SHARED[\s\S]*box +running +[\d.]+ MB +[\d.]+ MB +[\d.]+ MB/,
    )
    const first = (await cli.json(['top', '--once', '--lines', '1'])).sandboxes
    expect(first).toHaveLength(1)
    expect(first[0].info.state).toBe('running')
    const terminal = cli.terminal(['top'])
    await terminal.shows(/\[\?1049h/)
    await terminal.shows(/box[\s\S]*box/)
    terminal.type('\x03')
    await terminal.shows(/\[\?1049l/)
    expect(await terminal.status()).toBe(130)
  })

  test('why, usage, template ls and volume ls are tables for people and JSON for programs', async () => {
    // Programs inside may be busy for a moment after the wake.
    await expect
      .poll(async () => (await cli.run(['why', 'box'])).stdout)
      .toMatch(/it sleeps in (5\d|60) min\.\nsleeps +in \d+ min[\s\S]*WHEN +EVENT[\s\S]*created/)
    expect((await cli.json(['why', 'box'])).ledger.length).toBeGreaterThan(0)
    expect((await cli.run(['usage'])).stdout).toMatch(/SANDBOX +RUNNING[\s\S]*box[\s\S]*total/)
    expect((await cli.json(['usage', 'box'])).sandboxes).toHaveLength(1)
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
    await cli.run(['run', 'box', 'ready = "to go"'])
    await cli.json(['snapshot', 'create', 'box', '--name', 'loaded'])
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

describe('job', () => {
  const WAITS = 'import os, time\nwhile not os.path.exists(f"/jobs/{item}"): time.sleep(0.05)\nitem'
  const letGo = (item: number) =>
    cli.server.ok(`/v1/volumes/jobs/files?path=/${item}`, { method: 'PUT', body: 'go' })
  beforeAll(() => cli.json(['volume', 'create', 'jobs']))

  test('run shows a bar that grows, Ctrl-C leaves the job running, and wait shows the bar again', async () => {
    const inputs = [1, 2, 3, 4].flatMap((item) => ['--input', String(item)])
    const run = cli.terminal(['job', 'run', WAITS, ...inputs, '--volume', 'jobs:/jobs'])
    await run.shows(/░{24} 0\/4 … \d+\.\d s/)
    await letGo(1)
    await run.shows(/█{6}░{18} 1\/4 … /)
    await letGo(2)
    await run.shows(/█{12}░{12} 2\/4 … /)
    run.type('\x03')
    expect(await run.status()).toBe(130)
    const [{ id }] = (await cli.server.ok('/v1/jobs')).items
    const wait = cli.terminal(['job', 'wait', id])
    await wait.shows(/█{12}░{12} 2\/4 … /)
    for (const item of [3, 4]) await letGo(item)
    await wait.shows(new RegExp(`\\r\\x1b\\[K${id}\\s+4 succeeded of 4. Results: `))
    expect(await wait.status()).toBe(0)
    expect((await cli.json(['job', 'results', id])).tasks).toHaveLength(4)
  })

  test('run without a terminal shows no bar, and a failed task is exit status 1', async () => {
    const { status, stdout, stderr } = await cli.run(['job', 'run', '1 // item', '--input', '0'])
    expect({ status, stdout }).toEqual({ status: 1, stdout: expect.stringMatching(/^job-\w+\n$/) })
    expect(stderr).toMatch(/^1 failed of 1\. Results: `dormouse job results job-\w+`\.\n$/)
  })
})
