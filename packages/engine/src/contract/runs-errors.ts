import { describe, expect, test } from 'vitest'
import { runPython } from './collect.ts'
import type { EngineFactory } from './engine-factory.ts'
import { useSharedBurrow } from './shared-burrow.ts'

const MIB = 1024 ** 2
/** Names of our own code, which must not be in a traceback. */
const OURS = /dormouse|IPython|asyncio|runpy|eval\(/i

export function describeRunsErrors(factory: EngineFactory): void {
  describe('how a run fails', () => {
    const shared = useSharedBurrow(factory)
    const run = (code: string) => shared.guest.runs.run({ code })

    test('an exception ends the run with 1 and a traceback of user code, and the next run works', async () => {
      await run('kept = 5')
      const failed = await run('def divide(n):\n    return n / 0\nprint("before")\ndivide(1)\nprint("after")')
      expect(failed).toMatchObject({
        exitCode: 1,
        stdout: 'before\n',
        error: { name: 'ZeroDivisionError', message: 'division by zero' },
      })
      expect(failed.stderr).toMatch(/^Traceback \(most recent call last\):\n/)
      expect(failed.stderr).toContain('line 4')
      expect(failed.stderr).toContain('return n / 0')
      expect(failed.stderr).toMatch(/ZeroDivisionError: division by zero\n$/)
      expect(failed.stderr).not.toMatch(OURS)
      expect(failed.error?.traceback).toBe(failed.stderr)
      expect(failed.contextRestarted).toBeUndefined()
      expect(await runPython(shared.guest, 'print(kept)')).toBe('5\n')
    })

    test.each([
      ['a function of an earlier run', 'earlier()', /raise LookupError\("lost"\)[\s\S]*LookupError: lost\n$/],
      ['a cause', 'try: earlier()\nexcept LookupError as e: raise ValueError("v") from e', /direct cause/],
      [
        'an await',
        'import asyncio\nasync def f():\n  await asyncio.sleep(0)\n  earlier()\nawait f()',
        /LookupError/,
      ],
      ['a magic', '%timeit -n 1 -r 1 earlier()', /LookupError: lost\n$/],
      ['a group', 'raise ExceptionGroup("all", [ValueError("one"), KeyError("two")])', /one[\s\S]*two/],
      ['a library', 'import json; json.loads("{")', /json[\s\S]*JSONDecodeError/],
    ])('the traceback through %s shows user code, not ours', async (_what, code, shown) => {
      await run('def earlier():\n    raise LookupError("lost")')
      const failed = await run(code)
      expect(failed.exitCode).toBe(1)
      expect(failed.stderr).toMatch(shown)
      // Functions that user code calls may appear, also the call behind a magic.
      const shownOfOurs = failed.stderr.replaceAll(/await asyncio\.sleep|get_ipython\(\)/g, '')
      expect(shownOfOurs).not.toMatch(OURS)
    })

    test.each<[string, number, string]>([
      ['raise SystemExit(3)', 3, ''],
      ['raise SystemExit', 0, ''],
      ['import sys; sys.exit(7)', 7, ''],
      ['import sys; sys.exit("no luck")', 1, 'no luck\n'],
      ['raise SystemExit(261)', 5, ''],
      ['raise SystemExit(-1)', 255, ''],
      ['exit(4)', 4, ''],
      ['quit()', 0, ''],
    ])('%s ends the run with %i, and the kernel continues', async (code, exitCode, stderr) => {
      await run('kept = 6')
      expect(await run(`print("said")\n${code}`)).toMatchObject({ stdout: 'said\n', stderr, exitCode })
      expect(await runPython(shared.guest, 'print(kept)')).toBe('6\n')
    })

    test.each([
      ['SyntaxError', 'ran = True\nx = = 1'],
      ['SyntaxError', 'ran = True\nreturn 5'],
      ['SyntaxError', 'ran = True\nprint("open'],
      ['SyntaxError', 'ran = True\nx = "\0"'],
      ['IndentationError', 'ran = True\nif True:\nprint(1)'],
    ])('a %s fails the run before any of its code executes (%j)', async (name, code) => {
      await run('ran = False')
      const failed = await run(code)
      expect(failed).toMatchObject({ exitCode: 1, stdout: '', error: { name } })
      expect(failed.stderr).toContain(name)
      expect(failed.stderr).not.toMatch(OURS)
      expect(await runPython(shared.guest, 'print(ran)')).toBe('False\n')
    })

    test.each([
      ['endless recursion', 'def deep(): return deep()\ndeep()', 'RecursionError'],
      ['an exception that cannot be shown', 'class E(Exception):\n  def __str__(self): 1 / 0\nraise E', 'E'],
      ['a message of 10 MB', 'raise ValueError("x" * 10_000_000)', 'ValueError'],
      ['a raised KeyboardInterrupt', 'raise KeyboardInterrupt', 'KeyboardInterrupt'],
      ['a name that does not exist', 'nowhere', 'NameError'],
      ['more memory than there is address space', 'bytearray(2**60)', 'MemoryError'],
    ])('%s fails only its own run', async (_what, code, name) => {
      const failed = await run(code)
      expect(failed).toMatchObject({ exitCode: 1, error: { name } })
      expect(failed.stderr.length).toBeLessThan(MIB)
      expect(await runPython(shared.guest, 'print("fine")')).toBe('fine\n')
    })

    test.each([
      ['closes sys.stdout', 'import sys; sys.stdout.close()'],
      ['closes descriptors 1 and 2', 'import os; os.close(1); os.close(2)'],
      ['replaces sys.stdout by nothing', 'import sys; sys.stdout = sys.stderr = None'],
      ['deletes everything', 'for name in list(globals()): del globals()[name]'],
      ['ignores SIGINT', 'import signal; _ = signal.signal(signal.SIGINT, signal.SIG_IGN)'],
      [
        'leaves the directory it deletes',
        'import os; os.mkdir("/tmp/g"); os.chdir("/tmp/g"); os.rmdir("/tmp/g")',
      ],
    ])('after code that %s the next run works', async (_what, code) => {
      await run(code)
      const next = await run(
        'import os; os.chdir("/"); print("out"); __import__("sys").stderr.write("err\\n");',
      )
      expect(next).toMatchObject({ stdout: 'out\n', stderr: 'err\n', exitCode: 0 })
    })
  })

  describe('forms of code', () => {
    const shared = useSharedBurrow(factory)
    const run = (code: string) => runPython(shared.guest, code)

    test.each([
      ['5 MB in one string', () => `text = "${'x'.repeat(5 * MIB)}"\nprint(len(text))`, `${5 * MIB}\n`],
      ['5 MB of comments', () => `${`# ${'-'.repeat(77)}\n`.repeat((5 * MIB) / 80)}print("end")`, 'end\n'],
      [
        '5 MB of numbers',
        () => `n = [${'1234567,'.repeat((5 * MIB) / 8)}]\nprint(len(n))`,
        `${(5 * MIB) / 8}\n`,
      ],
      ['a hundred thousand lines', () => `n = 0\n${'n += 1\n'.repeat(100_000)}print(n)`, '100000\n'],
    ])('%s run', async (_what, code, stdout) => {
      expect(await run(code())).toBe(stdout)
    })

    test('code of more than 8 MB is refused', async () => {
      const refused = shared.guest.runs.run({ code: `#${'x'.repeat(8 * MIB)}` })
      await expect(refused).rejects.toMatchObject({
        code: 'invalid_argument',
        message: expect.stringMatching(/^code: /),
      })
    })

    test.each([
      ['nothing', '', ''],
      ['only comments and blank lines', '\n# nothing\n\n', ''],
      [
        'a block indented as a whole',
        '    x = 1\n    if x:\n        print("in")\n    print("out")\n',
        'in\nout\n',
      ],
      ['an indented block with a magic', '    x = !echo hi\n    print(x[0])\n', 'hi\n'],
      ['Windows line ends', 'x = 1\r\nif x:\r\n    print("crlf")\r\n', 'crlf\n'],
      ['no newline after a block', 'for i in range(2):\n  print(i)', '0\n1\n'],
      ['names beyond ASCII', 'größe = "ß🐭"; print(größe)', 'ß🐭\n'],
      [
        'top-level await',
        'import asyncio\nasync def f(): await asyncio.sleep(0.01); return 5\nprint(await f())',
        '5\n',
      ],
      ['top-level async for', 'async def g():\n  yield 1\nasync for i in g(): print(i)', '1\n'],
      ['asyncio.run', 'import asyncio\nasync def f(): return 6\nprint(asyncio.run(f()))', '6\n'],
      ['a shell command', '!echo "a b" && echo c', 'a b\nc\n'],
      ['the if __name__ idiom', 'if __name__ == "__main__": print("main")', 'main\n'],
    ])('code may contain %s', async (_what, code, stdout) => {
      expect(await run(code)).toBe(stdout)
    })

    test('a task of one run continues in a later await', async () => {
      await run('import asyncio\ndone = []\nasync def later(): await asyncio.sleep(0.02); done.append(1)')
      await run('task = asyncio.create_task(later())')
      expect(await run('await task\nprint(done)')).toBe('[1]\n')
    })

    test('%pip, %timeit, %%bash and !ls work', async () => {
      expect(await run('%pip --version')).toMatch(/^pip \d+/)
      expect(await run('%timeit -n 10 -r 2 1 + 1')).toMatch(/per loop/)
      expect(await run('%%bash\nx=5\necho "x is $x"')).toBe('x is 5\n')
      await shared.guest.files.write('/tmp/listed/a-file', '', { parents: true })
      expect(await run('!ls /tmp/listed')).toBe('a-file\n')
    })

    test.each(['input("name? ")', 'import getpass; getpass.getpass()', 'breakpoint()', 'input()'])(
      '%s fails at once and says why',
      async (code) => {
        const failed = await shared.guest.runs.run({ code, timeoutMs: 20_000 })
        expect(failed).toMatchObject({ exitCode: 1, error: { name: 'EOFError' } })
        expect(failed.error?.message).toMatch(/no keyboard/)
        expect(failed.timedOut).toBeUndefined()
      },
    )

    test('reading sys.stdin ends at once', async () => {
      expect(await run('import sys; print(repr(sys.stdin.read()))')).toBe("''\n")
    })
  })
}
