import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { type Terminal, useCommandLine } from './command-line.ts'

const cli = useCommandLine()
beforeAll(async () => {
  await cli.json(['create', 'box'])
})

async function open(): Promise<Terminal> {
  const terminal = cli.terminal(['repl', 'box'])
  await terminal.shows(/>>> /)
  return terminal
}

test('repl shows values, keeps variables for the next session, and exits with Ctrl-D', async () => {
  const first = await open()
  first.type('x = 20\r')
  await first.shows(/>>> /)
  first.type('x * 2 + 2\r')
  await first.shows(/\n42\r\n/)
  await first.shows(/>>> /)
  first.type('\x04')
  expect(await first.status()).toBe(0)
  const second = await open()
  second.type('print("was", x)\r')
  await second.shows(/was 20\r\n/)
  second.type('exit\r')
  expect(await second.status()).toBe(0)
})

test('repl reads blocks until an empty line, and open brackets until they close', async () => {
  const terminal = await open()
  terminal.type('for i in range(3):\r')
  await terminal.shows(/\.\.\. /)
  terminal.type('    print("turn", i)\r\r')
  await terminal.shows(/turn 0\r\nturn 1\r\nturn 2\r\n/)
  await terminal.shows(/>>> /)
  terminal.type('y = [1,\r2]\r')
  await terminal.shows(/>>> /)
  terminal.type('sum(y)\r')
  await terminal.shows(/\n3\r\n/)
  terminal.close()
})

test('repl: Ctrl-C interrupts a run and keeps variables; at the prompt it discards the line', async () => {
  const terminal = await open()
  terminal.type('z = 5; import time; print("be" + "gun"); time.sleep(1000)\r')
  await terminal.shows(/begun/)
  terminal.type('\x03')
  await terminal.shows(/KeyboardInterrupt/)
  await terminal.shows(/>>> /)
  terminal.type('raise SystemExit("never")\x03')
  await terminal.shows(/KeyboardInterrupt\r\n[\s\S]*>>> /)
  terminal.type('for i in x:\r')
  await terminal.shows(/\.\.\. /)
  terminal.type('\x03')
  await terminal.shows(/>>> /)
  terminal.type('z\r')
  await terminal.shows(/\n5\r\n/)
  terminal.type('\x04')
  expect(await terminal.status()).toBe(0)
})

test('repl: Tab completes names that the sandbox knows, and indents an empty line', async () => {
  const terminal = await open()
  terminal.type('class Vole: burrow_depth = 7; burrow_width = 8\r\r')
  await terminal.shows(/>>> /)
  terminal.type('Vole.burrow_d')
  await terminal.shows(/burrow_d/)
  terminal.type('\t')
  await terminal.shows(/epth/)
  terminal.type(' + 1\r')
  await terminal.shows(/\n8\r\n[\s\S]*>>> /)
  terminal.type('Vole.bur')
  await terminal.shows(/Vole\.bur/)
  terminal.type('\t')
  await terminal.shows(/row_/)
  terminal.type('\t')
  await terminal.shows(/burrow_depth\s+burrow_width/)
  terminal.type('\x03')
  await terminal.shows(/>>> /)
  terminal.type('if True:\r')
  await terminal.shows(/\.\.\. /)
  terminal.type('\t')
  await terminal.shows(/ {4}/)
  terminal.type('print("inden" + "ted")\r\r')
  await terminal.shows(/indented\r\n/)
  terminal.close()
})

test('repl: input() and getpass() read from the terminal, and answers stay out of the history', async () => {
  const terminal = await open()
  terminal.type('print("your ", end=""); name = input("na" + "me? "); print("hello", name)\r')
  await terminal.shows(/your name\? /)
  terminal.type('Ada Lovelace\r')
  await terminal.shows(/hello Ada Lovelace\r\n/)
  await terminal.shows(/>>> /)
  terminal.type('import getpass; secret = getpass.getpass("ke" + "y: "); print("got", len(secret))\r')
  await terminal.shows(/key: /)
  terminal.type('hunter2-hidden\r')
  await terminal.shows(/got 14\r\n/)
  expect(terminal.text).not.toContain('hunter2')
  await terminal.shows(/>>> /)
  // Lines that were typed ahead are answers, as in Python's own prompt.
  terminal.type('a = input(); b = input(); print(a + b)\rtyped \rahead\r')
  await terminal.shows(/typed ahead\r\n/)
  terminal.type('\x04')
  expect(await terminal.status()).toBe(0)
  const file = join(cli.server.factory.stateDir, 'dormouse/repl-history')
  const history = await readFile(file, 'utf8')
  expect(history).toContain('name = input("na" + "me? ")')
  expect(history).not.toMatch(/Ada Lovelace|hunter2|typed|ahead/)
})

test('repl: Ctrl-C at input() interrupts the run, Ctrl-D ends the input', async () => {
  const terminal = await open()
  terminal.type('input("fir" + "st? ")\r')
  await terminal.shows(/first\? /)
  terminal.type('half an answer\x03')
  await terminal.shows(/KeyboardInterrupt/)
  await terminal.shows(/>>> /)
  terminal.type('1 + 1\r')
  await terminal.shows(/\n2\r\n/)
  await terminal.shows(/>>> /)
  terminal.type('input("sec" + "ond? ")\r')
  await terminal.shows(/second\? /)
  terminal.type('\x04')
  await terminal.shows(/EOFError: the caller of the run ended the input/)
  expect(await terminal.status()).toBe(0)
})

test('repl: Ctrl-C and the loss of the terminal also end a run that waits behind another', async () => {
  const at = '/v1/sandboxes/box'
  const long = cli.server.ok(`${at}/run`, { json: { code: 'import time; time.sleep(1000)' } })
  const newest = async () => (await cli.server.ok(`${at}/runs?limit=1`)).items[0]
  await expect.poll(async () => (await newest()).state).toBe('running')
  const { runId } = await newest()
  const terminal = await open()
  terminal.type('print("never")\r')
  await expect.poll(async () => (await newest()).state).toBe('queued')
  terminal.type('\x03')
  await terminal.shows(/KeyboardInterrupt[\s\S]*>>> /)
  terminal.type('print("never again")\r')
  await expect.poll(async () => (await newest()).code).toBe('print("never again")')
  terminal.hangUp()
  expect(await terminal.status()).toBe(129)
  await expect.poll(async () => (await newest()).exitCode).toBe(130)
  await cli.server.ok(`${at}/runs/${runId}/interrupt`, { method: 'POST' })
  expect(await long).toMatchObject({ interrupted: true })
})

test('repl: a half-typed answer is not given when the terminal goes away', async () => {
  const terminal = await open()
  terminal.type('open("/tmp/answered", "w").write(input("real" + "ly? "))\r')
  await terminal.shows(/really\? /)
  terminal.type('yes')
  await terminal.shows(/yes/)
  terminal.hangUp()
  await terminal.status()
  expect((await cli.run(['exec', 'box', '--', 'cat', '/tmp/answered'])).stdout).toBe('')
  expect(await cli.run(['run', 'box', '1 + 1'])).toMatchObject({ status: 0, stdout: '2\n' })
})

test.each(['terminal', 'uncontrolledTerminal'] as const)(
  'repl does not run what was typed when its terminal goes away (%s)',
  async (kind) => {
    const opened = async () => {
      const terminal = cli[kind](['repl', 'box'])
      await terminal.shows(/>>> /)
      return terminal
    }
    const half = await opened()
    half.type('open("/tmp/half-line", "w")')
    await half.shows(/half-line", "w"\)/)
    half.hangUp()
    await half.status()
    const block = await opened()
    block.type('if True:\r    open("/tmp/half-block", "w")\r')
    await block.shows(/half-block[\s\S]*\.\.\. /)
    block.hangUp()
    await block.status()
    const waiting = await opened()
    waiting.type('import time; print("be" + "gun"); time.sleep(1000)\ropen("/tmp/waiting-line", "w")\r')
    await waiting.shows(/begun/)
    waiting.hangUp()
    await waiting.status()
    const { stdout } = await cli.run(['exec', 'box', '--', 'ls', '/tmp'])
    expect(stdout).not.toMatch(/half-line|half-block|waiting-line/)
    // The run was interrupted, so the context is free.
    expect(await cli.run(['run', 'box', '1 + 1'])).toMatchObject({ status: 0, stdout: '2\n' })
  },
)

test('code and secrets that are typed are not used when the terminal goes away', async () => {
  const run = cli.terminal(['run', 'box', '-'])
  run.type('open("/tmp/typed-code", "w")\r')
  await run.shows(/typed-code/)
  run.hangUp()
  await run.status()
  const secret = cli.terminal(['secret', 'create', 'HALF', '--domain', 'example.com'])
  await secret.shows(/Value: /)
  secret.type('sk-1234')
  secret.hangUp()
  expect(await secret.status()).toBe(129)
  expect((await cli.run(['exec', 'box', '--', 'ls', '/tmp'])).stdout).not.toContain('typed-code')
  expect((await cli.json(['secret', 'ls'])).secrets).toEqual([])
})

test('repl keeps its history in a file that only the user can read', async () => {
  const first = await open()
  first.type('remembered = "yes"\r')
  await first.shows(/>>> /)
  first.type('\x04')
  await first.status()
  const file = join(cli.server.factory.stateDir, 'dormouse/repl-history')
  expect(await readFile(file, 'utf8')).toContain('remembered = "yes"\n')
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  const second = await open()
  second.type('\x1b[A')
  await second.shows(/remembered = "yes"/)
  second.close()
})

test('repl runs code from a pipe, and exits with the status of the last piece', async () => {
  const good = await cli.run(['repl', 'box'], { input: 'a = 1\nif a:\n    print("in")\n\na + 1\n' })
  expect(good).toEqual({ status: 0, stdout: 'in\n2\n', stderr: '' })
  const bad = await cli.run(['repl', 'box'], { input: '1/0' })
  expect(bad.status).toBe(1)
  expect(bad.stderr).toContain('ZeroDivisionError')
  const { stdout } = await cli.run(['repl', 'box', '--json'], { input: 'a\n"b"' })
  expect(
    stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).text),
  ).toEqual(['1', "'b'"])
})
