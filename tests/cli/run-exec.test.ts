import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, test } from 'vitest'
import { useCommandLine } from './command-line.ts'

const cli = useCommandLine()
const launcher = fileURLToPath(new URL('../../dormouse', import.meta.url))
beforeAll(async () => {
  await cli.json(['create', 'alpha', '--idle', '1h'])
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

  test('reports a kernel that ends, and reports once that the context is new', async () => {
    const died = await cli.run(['run', 'alpha', 'import os; os._exit(0)'])
    expect(died).toMatchObject({ status: 1, stdout: '' })
    expect(died.stderr).toMatch(/^KernelDied: the kernel exited with code 0; .*its variables are gone\n$/)
    const next = await cli.run(['run', 'alpha', '1'])
    expect(next.stderr).toMatch(/^dormouse: the kernel exited with code 0; .*its variables are gone\n$/)
    expect((await cli.run(['run', 'alpha', '1'])).stderr).toBe('')
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
    expect(stderr).toContain('RunTimeout: the run was interrupted')
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

  test('-d leaves the program running; why names it unless it was started with --no-keep-awake', async () => {
    const started = await cli.run(['exec', '-d', 'alpha', '--', 'sleep', '100001'])
    const quietly = ['exec', '--json', '-d', '--no-keep-awake', 'alpha', '--', 'sleep', '100002']
    const quiet = JSON.parse((await cli.run(quietly)).stdout)
    expect(started).toMatchObject({ status: 0, stdout: expect.stringMatching(/^pr-\w+\n$/) })
    const [, pid = ''] = /kill (\d+)`/.exec(started.stderr) ?? []
    const { stdout } = await cli.run(['why', 'alpha'])
    expect(stdout).toContain(`process ${pid} (sleep 100001)`)
    expect(stdout).not.toContain('sleep 100002')
    const kill = ['exec', 'alpha', '--', 'kill', pid, String(quiet['pid'])]
    expect(await cli.run(kill)).toEqual({ status: 0, stdout: '', stderr: '' })
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

test('a new context for bash keeps its state, and ls names what the server made a sandbox for', async () => {
  await cli.run(['run', 'alpha', '-l', 'bash', '--context', 'work', 'cd /tmp; greeting=hello'])
  const { stdout } = await cli.run(['run', 'alpha', '--context', 'work', 'echo $greeting from $PWD'])
  expect(stdout).toBe('hello from /tmp\n')
  await cli.json(['create', '--metadata', 'dormouse/purpose=template build'])
  expect((await cli.run(['ls'])).stdout).toContain('  (template build)  running')
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
    // The program may write faster than the server reads.
    const stderr = expect.stringMatching(/^(dormouse: dropped \d+ bytes .*\n)?$/)
    expect(untilOne('exec alpha yes')).toMatchObject({ status: 0, stdout: 'y\n', stderr })
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
