import { describe, expect, test } from 'vitest'
import { collect, expectWholeJournal, runPython } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

export function describeBash(factory: EngineFactory): void {
  describe('bash runs', () => {
    const shared = useSharedBurrow(factory)
    const bash = (code: string, more: { timeoutMs?: number; context?: string } = {}) =>
      shared.guest.runs.run({ code, language: 'bash', ...more })

    test('exit code, stdout and stderr are reported unchanged', async () => {
      expect(await bash('echo out; echo err >&2; exit 3')).toMatchObject({
        stdout: 'out\n',
        stderr: 'err\n',
        exitCode: 3,
        results: [],
      })
      const events = await collect(shared.guest.runs.stream({ code: 'echo a', language: 'bash' }))
      expectWholeJournal(events)
    })

    test.each<[string, string, number]>([
      ['nothing', '', 0],
      ['a false last command', 'true; false', 1],
      ['a command that does not exist', 'no-such-command', 127],
      ['a syntax error', 'if then', 2],
      ['set -e', 'set -e; false; echo never', 1],
      ['a signal to itself', 'kill -KILL $$', 137],
      ['a segfault', 'kill -SEGV $$', 139],
    ])('%s ends with its exit code', async (_what, code, exitCode) => {
      expect(await bash(code)).toMatchObject({ exitCode, stdout: '' })
    })

    test('the shell is bash, with arrays, pipes and several lines', async () => {
      const code = `a=(x y z)\nfor i in "\${a[@]}"; do\n  echo "$i"\ndone | tail -n 2\nfunction f { echo "$1"; }; f "fün"`
      expect((await bash(code)).stdout).toBe('y\nz\nfün\n')
    })

    test('files persist between runs, shell variables, cwd and functions do not', async () => {
      await bash('x=5; export Y=6; cd /tmp; f() { echo f; }; echo kept > /tmp/kept')
      const next = await bash('echo "[$x$Y]"; pwd; type f; cat /tmp/kept')
      expect(next.stdout).toBe('[]\n/root\nkept\n')
      expect(next.stderr).toMatch(/f: not found/)
    })

    test('Python variables are unchanged after a bash run', async () => {
      await runPython(shared.guest, 'x = 7')
      await bash('pkill nobody; x=9')
      expect(await runPython(shared.guest, 'print(x)')).toBe('7\n')
    })

    test('output written right before the end is not lost, in any of many runs', async () => {
      const code = 'for n in 1 2 3 4; do head -c 15000 /dev/zero | tr "\\0" $n; done; echo end'
      for (let round = 0; round < 20; round += 1) {
        const { stdout } = await bash(code)
        expect(stdout.length).toBe(60_004)
        expect(stdout.endsWith('4end\n')).toBe(true)
      }
    })

    test('stdin is empty, and a read ends at once', async () => {
      expect((await bash('read line; echo "$? [$line]"; cat')).stdout).toBe('1 []\n')
    })

    test('a background job does not delay the end of the run, and continues after it', async () => {
      const run = await bash('sleep 987 & echo started')
      expect(run).toMatchObject({ stdout: 'started\n', exitCode: 0 })
      expect((await bash('pgrep -cf "^sleep 987"')).stdout).toBe('1\n')
    })

    test('a script of 2 MB runs', async () => {
      const code = `${`: ${'x'.repeat(97)}\n`.repeat(20_000)}echo end`
      expect((await bash(code)).stdout).toBe('end\n')
    })

    test('a time-out ends the script and its children', async () => {
      const run = await bash('echo begun; sleep 654; echo never', { timeoutMs: 500 })
      expect(run).toMatchObject({
        stdout: 'begun\n',
        exitCode: 124,
        timedOut: true,
        error: { name: 'RunTimeout' },
      })
      expect((await bash('pgrep -cf "^sleep 654"')).stdout).toBe('0\n')
    })

    test('a script that ignores the interrupt is killed after the grace period', async () => {
      const code = 'trap "" INT; echo deaf; while :; do sleep 0.1; done'
      const run = await bash(code, { timeoutMs: 200 })
      expect(run).toMatchObject({ stdout: 'deaf\n', exitCode: 124, timedOut: true })
      expect(run.contextRestarted).toBeUndefined()
    })

    test('a script has the user, directory and environment of its context', async () => {
      await shared.guest.contexts.create({
        context: 'small',
        user: 'user',
        cwd: '/tmp',
        env: { COLOUR: 'blue' },
      })
      const run = await bash('echo $(whoami) $PWD $COLOUR $HOME', { context: 'small' })
      expect(run.stdout).toBe('user /tmp blue /home/user\n')
    })

    test('a script with NUL is refused', async () => {
      await expect(bash('echo a\0b')).rejects.toMatchObject({ code: 'invalid_argument' })
    })
  })
}
