import type { StartRun } from '@dormouse/engine'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { useSharedBurrow } from '../../packages/engine/src/contract/shared-burrow.ts'
import { linuxFactory } from '../engine-linux/linux-factory.ts'

const factory = await linuxFactory()
afterAll(() => factory.cleanUp())

describe('a bash context', () => {
  const shared = useSharedBurrow(factory)
  beforeAll(async () => {
    const env = { GREETING: 'hi' }
    await shared.guest.contexts.create({ context: 'shell', language: 'bash', cwd: '/tmp', env })
  })
  const run = (code: string, more: Partial<StartRun> = {}) =>
    shared.guest.runs.run({ code, context: 'shell', ...more })
  const print = async (code: string) => (await run(code)).stdout

  test('keeps variables, functions, options and its directory', async () => {
    expect(await print('x=1; greet() { echo "$GREETING $1"; }; export Y=2; shopt -s nullglob; pwd')).toBe(
      '/tmp\n',
    )
    await run('mkdir -p /tmp/below; cd /tmp/below')
    expect(await print('greet you; echo $x; sh -c "echo $Y"; echo *.none; pwd')).toBe(
      'hi you\n1\n2\n\n/tmp/below\n',
    )
  })

  test('a run with the language bash elsewhere keeps nothing', async () => {
    await shared.guest.runs.run({ code: 'z=1', language: 'bash' })
    const { stdout } = await shared.guest.runs.run({ code: 'echo "[$z]"', language: 'bash' })
    expect(stdout).toBe('[]\n')
  })

  test('returns the status of the last command, and of exit, which ends only the run', async () => {
    await run('kept=1')
    expect(await run('false')).toMatchObject({ exitCode: 1, stderr: '' })
    expect(await run('echo before; exit 3; echo after')).toMatchObject({
      exitCode: 3,
      stdout: 'before\n',
      stderr: '',
    })
    expect(await print('(exit 4); echo $? $kept')).toBe('4 1\n')
    expect(await run('exit 300')).toMatchObject({ exitCode: 44 })
  })

  test('code reads an empty input, several lines and quotes as they are, and can be long', async () => {
    expect(await print('read line; echo "[$line]"; cat\nfor i in 1 2; do\n  echo "$i"\ndone')).toBe(
      '[]\n1\n2\n',
    )
    expect(await print(`echo 'a"b' "c'd" \\$e "!" ü; cat <<'END'\n$here\nEND`)).toBe(
      `a"b c'd $e ! ü\n$here\n`,
    )
    expect(await print(`: ${'x'.repeat(300_000)}\necho end`)).toBe('end\n')
    expect(await run('if true; then')).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('syntax error'),
    })
    expect(await run('no-such-program')).toMatchObject({ exitCode: 127 })
  })

  test.each([
    ['a program', 'sleep 100'],
    ['a loop', 'while :; do :; done'],
    ['a pipeline', 'yes | cat > /dev/null'],
    ['a program in a function in a subshell', 'deep() { (sleep 100; echo no); }; deep; echo no'],
  ])('%s is interrupted, and the variables stay', async (_what, code) => {
    await run('before=1')
    const stopped = await run(code, { timeoutMs: 500 })
    expect(stopped).toMatchObject({ timedOut: true, stdout: '' })
    expect(stopped.contextRestarted).toBeUndefined()
    expect(await print('echo $before')).toBe('1\n')
  })

  test('programs in the background outlive their run', async () => {
    await run('sleep 0.3 > /dev/null && echo late > /tmp/late & job=$!')
    expect(await print('wait $job; cat /tmp/late; kill -0 $job 2> /dev/null || echo ended')).toBe(
      'late\nended\n',
    )
  })

  test('set -e ends it at the first failure, and the run says so', async () => {
    await run('lost=1')
    const ended = await run('set -e; false; echo not here')
    expect(ended).toMatchObject({ stdout: '', error: { name: 'KernelDied' } })
    expect(await print('echo "[$lost]"')).toBe('[]\n')
  })

  test('refuses questions, completion and NUL', async () => {
    await expect(run('read x', { input: true })).rejects.toMatchObject({ code: 'invalid_argument' })
    await expect(run('echo \0')).rejects.toMatchObject({ code: 'invalid_argument' })
    await expect(shared.guest.contexts.complete('shell', 'ec')).rejects.toMatchObject({ code: 'conflict' })
  })
})
