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
