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

  test('create --snapshot starts from a snapshot, and promote lets the parent continue as the fork', async () => {
    await cli.run(['create', 'origin'])
    await cli.run(['run', 'origin', 'v = 1'])
    const { id } = await cli.json(['snapshot', 'origin', '--name', 'ready'])
    expect((await cli.run(['snapshot', 'origin', '--name', 'ready'])).stderr).toContain(
      'already has a snapshot',
    )
    await cli.json(['create', 'second', '--snapshot', 'origin/ready'])
    await cli.run(['run', 'second', 'v += 1'])
    await cli.json(['snapshot', 'second', '--name', 'more'])
    await cli.json(['rollback', 'origin', 'second/more'])
    expect((await cli.run(['run', 'origin', 'print(v)'])).stdout).toBe('2\n')
    await cli.run(['run', 'second', 'v += 1'])
    expect(await cli.json(['promote', 'second', '--keep'])).toMatchObject({ name: 'origin' })
    expect((await cli.run(['run', 'origin', 'print(v)'])).stdout).toBe('3\n')
    expect((await cli.run(['promote', 'second'])).stderr).toContain('origin continues as second')
    expect((await cli.run(['run', 'second', 'print(v)'])).status).not.toBe(0)
    expect((await cli.run(['create', '--snapshot', id, '--template', 'python'])).status).toBe(2)
    await cli.json(['snapshot', 'rm', 'origin/ready', 'more'])
    await cli.json(['rm', 'origin'])
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
