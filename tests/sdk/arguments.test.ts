import { createReadStream, createWriteStream } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { Dormouse, Sandbox } from 'dormouse'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { useSdkServer } from './sdk-server.ts'

const server = useSdkServer()
let sandbox: Sandbox
let directory = ''
beforeAll(async () => {
  sandbox = await server.create()
  directory = await mkdtemp(join(tmpdir(), 'dormouse-arguments-'))
})
afterAll(() => rm(directory, { recursive: true, force: true }))

const refusal = (message: RegExp) => ({
  code: 'invalid_argument',
  message: expect.stringMatching(message),
})

describe('a wrong argument is refused, and the message names it', () => {
  const wrong: [string, RegExp, () => Promise<unknown>][] = [
    ['a negative idle time', /idleTimeoutMs/, () => server.create({ idleTimeoutMs: -1 })],
    [
      'an idle time that is not a number',
      /idleTimeoutMs/,
      () => server.create({ idleTimeoutMs: Number.NaN }),
    ],
    ['an idle time without an end', /idleTimeoutMs/, () => server.create({ idleTimeoutMs: Infinity })],
    ['a negative idle time in an update', /idleTimeoutMs/, () => sandbox.update({ idleTimeoutMs: -1 })],
    ['a negative store time', /storeAfterMs/, () => server.create({ storeAfterMs: -1 })],
    ['a negative time-out of a run', /timeoutMs/, () => sandbox.runCode('1', { timeoutMs: -1 })],
    ['a negative time-out of a command', /timeoutMs/, () => sandbox.commands.run('true', { timeoutMs: -1 })],
    ['a negative time-out of a client', /timeoutMs/, async () => new Dormouse({ timeoutMs: -1 })],
    ['a negative number of forks', /count/, () => sandbox.fork(-1)],
    ['a number of forks that is no number', /count/, () => sandbox.fork(Number.NaN)],
    ['an empty id', /idOrName/, () => Sandbox.connect('', { client: server.client })],
    ['an object as content', /content/, () => sandbox.files.write('/tmp/a', { a: 1 } as unknown as string)],
    ['a number as stdin', /input/, () => sandbox.commands.run('cat', { input: 5 as unknown as string })],
    [
      'a controller as signal',
      /signal/,
      () => sandbox.refresh({ signal: new AbortController() as unknown as AbortSignal }),
    ],
  ]
  test.each(wrong)('%s', async (_what, message, call) => {
    await expect(call()).rejects.toMatchObject(refusal(message))
  })

  test('two dots are a name, not a way to another address', async () => {
    await expect(Sandbox.connect('..', { client: server.client })).rejects.toMatchObject({
      code: expect.stringMatching(/not_found|invalid_argument/),
    })
  })

  test('the content that was refused was not written', async () => {
    expect(await sandbox.files.exists('/tmp/a')).toBe(false)
  })
})

describe('streams of Node', () => {
  test('are content of files and stdin of commands, and files are read into them', async () => {
    const local = join(directory, 'in')
    await writeFile(local, 'x'.repeat(300_000))
    const stat = await sandbox.files.write('/tmp/streamed', createReadStream(local))
    expect(stat.sizeBytes).toBe(300_000)
    const counted = await sandbox.commands.run('wc -c', { input: createReadStream(local) })
    expect(counted.stdout.trim()).toBe('300000')
    await pipeline(sandbox.files.stream('/tmp/streamed'), createWriteStream(join(directory, 'out')))
    expect(await readFile(join(directory, 'out'), 'utf8')).toBe('x'.repeat(300_000))
  })

  test('that fail throw their own error, and leave the old file', async () => {
    await sandbox.files.write('/tmp/kept', 'old')
    const missing = join(directory, 'missing')
    await expect(sandbox.files.write('/tmp/kept', createReadStream(missing))).rejects.toMatchObject({
      code: 'ENOENT',
    })
    expect(await sandbox.files.read('/tmp/kept')).toBe('old')
    const run = sandbox.commands.run('cat', { input: createReadStream(missing) })
    await expect(run).rejects.toMatchObject({ code: 'ENOENT' })
  })
})

describe('the system', () => {
  test.each(['/', '/etc', '/usr/', '/root/../usr', '..', '.'])('%s is not removed', async (path) => {
    await expect(sandbox.files.remove(path, { recursive: true })).rejects.toMatchObject(refusal(/path/))
    await expect(sandbox.files.move(path, '/tmp/moved')).rejects.toMatchObject(refusal(/from/))
    expect((await sandbox.runCode('1 + 1')).text).toBe('2')
  })

  test('what is below it is', async () => {
    await sandbox.files.write('/etc/mine/a', 'a', { parents: true })
    await sandbox.files.remove('/etc/mine', { recursive: true })
    expect(await sandbox.files.exists('/etc/mine')).toBe(false)
  })
})
