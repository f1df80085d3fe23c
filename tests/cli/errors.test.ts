import { spawnSync } from 'node:child_process'
import { chmod, mkdtemp, rmdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { runLauncher, useCommandLine } from './command-line.ts'

const cli = useCommandLine()
const launcher = fileURLToPath(new URL('../../dormouse', import.meta.url))

test.each([
  [['ls', '--bogus'], '--bogus'],
  [['ls', 'extra'], 'too many arguments'],
  [['standby'], "missing required argument 'sandbox'"],
  [['run', 'box', '--language', 'cobol', 'x'], 'python, bash'],
  [['run', 'box', 'x', '-f', 'y'], 'not both'],
  [['run', '--new', 'a', 'b'], 'the only argument is the code'],
  [['run', 'box', '1', '--memory', '2g'], '--memory needs --new'],
  [['create', '--idle', 'soon'], '15s'],
  [['create', '--memory', 'lots'], '4GiB'],
  [['create', '--env', 'novalue'], 'NAME=VALUE'],
  [['create', '-v', 'data'], 'VOLUME:/PATH'],
  [['create', 'a', '--name', 'b'], 'there are two names'],
  [['exec', 'box'], 'command'],
  [['forward', 'box', 'http'], 'is not a port'],
  [['snapshot', 'ls', 'a', 'b'], 'too many arguments'],
  [['completion', 'powershell'], 'bash, zsh, fish'],
  [['demo', '--rows', '5'], 'at least 1000'],
])('%j is refused with status 2', async (args, message) => {
  const { status, stdout, stderr } = await cli.run(args)
  expect(stderr).toContain(message)
  expect(stderr).toMatch(/^dormouse: /)
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
})

test.each([
  [['rm'], 'rm'],
  [['ls', '--bogus'], 'ls'],
  [['snapshot', 'ls', 'a', 'b'], 'snapshot ls'],
  [['volume', 'creat', 'x'], 'volume'],
])('%j points to the help of the command, in text and in JSON', async (args, command) => {
  const hint = `Run \`dormouse ${command} --help\` for its usage.`
  expect((await cli.run(args)).stderr).toMatch(new RegExp(`^dormouse: .*\\n(.*\\n)?  ${hint}\\n$`))
  expect(JSON.parse((await cli.run([...args, '--json'])).stderr).error.hint).toContain(hint)
})

test.each([
  [['create', 'my box'], /^dormouse: name: must be .*\n {2}Run `dormouse create --help` for/],
  [['volume', 'show', 'nothing'], /There is no volume "nothing"\.\n {2}.*`dormouse volume create NAME`/],
  [['secret', 'show', 'NOTHING'], /There is no secret "NOTHING"\.\n {2}.*`dormouse secret create NAME`/],
  [['cp', '/no/such/file', 'box:/root/'], /^dormouse: \/no\/such\/file: no such file or directory\n$/],
])('%j describes the mistake in terms of the command line', async (args, message) => {
  const { status, stdout, stderr } = await cli.run(args)
  expect(stderr).toMatch(message)
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
})

test.each([
  [['creat'], 'Did you mean "create"?'],
  [['delete', 'box'], 'Did you mean "rm"?'],
  [['ls', '--jsno'], 'Did you mean --json?'],
  [['template', 'shw', 'python'], 'Did you mean show?'],
])('%j suggests what may have been meant', async (args, suggestion) => {
  const { status, stdout, stderr } = await cli.run(args)
  expect(stderr).toContain(suggestion)
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
})

test('a wrong name of a sandbox, snapshot or template suggests a similar one', async () => {
  await cli.json(['create', 'analysis'])
  await cli.json(['snapshot', 'create', 'analysis', '--name', 'loaded'])
  const suggests = async (args: readonly string[], name: string) =>
    expect(await cli.run(args), args.join(' ')).toMatchObject({
      status: 1,
      stderr: expect.stringContaining(`Did you mean "${name}"?`),
    })
  await suggests(['resume', 'anlaysis'], 'analysis')
  await suggests(['rollback', 'analysis', 'laoded'], 'loaded')
  await suggests(['snapshot', 'rm', 'laoded'], 'loaded')
  for (const args of [
    ['create', '--template', 'pyton'],
    ['run', '--new', '--template', 'pyton', '1'],
    ['template', 'show', 'pyton'],
    ['template', 'rm', 'pyton'],
  ])
    await suggests(args, 'python')
  await cli.json(['snapshot', 'rm', 'loaded'])
  await cli.json(['rm', 'analysis'])
})

test('a copy between sandboxes and a secret without a value are refused with a hint', async () => {
  const both = await cli.run(['cp', 'a:/x', 'b:/y'])
  expect(both.stderr).toContain('dormouse cp a:/x - | dormouse cp - b:/y')
  expect(both.status).toBe(2)
  const inside = await cli.run(['cp', 'a:/x', 'a:/y'])
  expect(inside.stderr).toContain('dormouse exec a -- cp -r /x /y')
  for (const args of [
    ['secret', 'set', 'KEY'],
    ['secret', 'create', 'KEY', '--domain', 'example.com'],
  ]) {
    const { status, stderr } = await cli.run(args)
    expect(stderr).toContain('standard input')
    expect(status).toBe(2)
  }
})

test('without a server, the error says how to start one', async () => {
  const env = { ...cli.env, DORMOUSE_URL: 'http://127.0.0.1:9', DORMOUSE_API_KEY: 'dm_x_y' }
  const { status, stderr } = await runLauncher(['ls'], { env })
  expect(status).toBe(1)
  expect(stderr).toContain('sudo ./dormouse up')
})

test('without a key, the error says where keys come from; a wrong key is refused with the request id', async () => {
  const none = await runLauncher(['ls'], { env: { ...cli.env, DORMOUSE_DATA: '/nonexistent' } })
  expect(none.stderr).toContain('DORMOUSE_API_KEY')
  expect(none.status).toBe(1)
  const wrong = await cli.run(['ls'], { env: { DORMOUSE_API_KEY: 'dm_x_y' } })
  expect(wrong.stderr).toMatch(/\(unauthorized, request req-/)
})

test('a user who cannot read the key of the server gets a hint to use sudo, and needs no root with a key', async () => {
  // The clone may be below a directory that only root can enter, such as its home.
  const clone = await mkdtemp(join(tmpdir(), 'dormouse-clone-'))
  await chmod(clone, 0o755)
  onTestFinished(() => rmdir(clone))
  const script =
    'mount --bind "$0" "$1" && shift && exec setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@"'
  const argv = [dirname(launcher), clone, process.execPath, join(clone, 'setup/main.mjs'), 'ls']
  const as = (env: Record<string, string>) =>
    spawnSync('unshare', ['--mount', 'bash', '-c', script, ...argv], {
      encoding: 'utf8',
      env: { ...cli.env, ...env },
    })
  const refused = as({ DORMOUSE_DATA: cli.server.factory.stateDir })
  expect(refused.stderr).toContain('Only root can read the key in')
  expect(refused.status).toBe(1)
  const allowed = as({ DORMOUSE_URL: cli.server.url, DORMOUSE_API_KEY: cli.server.key })
  expect(allowed).toMatchObject({ status: 0, stdout: '' })
})

test('--data and --url select the server, before or after the command', async () => {
  const { stateDir } = cli.server.factory
  for (const args of [
    ['--data', stateDir, 'ls', '--json'],
    [`--data=${stateDir}`, 'ls', '--json'],
    ['ls', '--json', '--data', stateDir],
    ['ls', '--json', '--data', stateDir, '--url', cli.server.url],
  ]) {
    const { status, stdout } = await runLauncher(args, { env: { ...cli.env, DORMOUSE_DATA: '/nonexistent' } })
    expect(status).toBe(0)
    expect(JSON.parse(stdout)).toEqual({ sandboxes: [] })
  }
})
