import { once } from 'node:events'
import { closeSync, existsSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, describe, expect, test } from 'vitest'
import { startAddon } from '../native-programs.ts'
import { type ProgramStart, startByNode, startProgram } from './start-program.ts'

const directory = mkdtempSync(join(tmpdir(), 'dormouse-start-'))
afterAll(() => rmSync(directory, { recursive: true }))

/** Descriptors that the process which runs the tests leaves open for every program. */
const inherited = new Set(
  readdirSync('/proc/self/fd').filter(
    (fd) => Number(fd) > 4 && existsSync(`/proc/self/fdinfo/${fd}`) && !closesOnExec(fd),
  ),
)

function closesOnExec(fd: string): boolean {
  const flags = /flags:\s*(\d+)/.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1] ?? '0'
  return (Number.parseInt(flags, 8) & 0o2000000) !== 0
}

test('the addon is built where tests run, so that both ways are tested', () => {
  expect(existsSync(startAddon)).toBe(true)
})

describe.each([
  ['without copying this process', startProgram],
  ['by Node', startByNode],
])('a program started %s', (_how, start) => {
  const shell = (script: string, more: Partial<ProgramStart> = {}) =>
    start({ argv: ['sh', '-c', script], stdio: ['ignore', 'pipe', 'pipe'], ...more })
  const output = async (script: string, more: Partial<ProgramStart> = {}) => {
    const program = shell(script, more)
    const [stdout] = await Promise.all([text(program.streams[1]!), program.closed])
    return stdout
  }

  test('is talked to by its streams, and says how it has ended', async () => {
    const program = shell('read line; echo "got $line"; echo bad >&2; exit 7', {
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    const [stdin, stdout, stderr] = program.streams
    expect(program.isRunning).toBe(true)
    stdin!.end('hello\n')
    expect(await Promise.all([text(stdout!), text(stderr!)])).toEqual(['got hello\n', 'bad\n'])
    expect(await program.closed).toEqual({ exitCode: 7, signal: null })
    expect(program.isRunning).toBe(false)
  })

  test('sees the end of its input', async () => {
    const program = start({ argv: ['cat'], stdio: ['pipe', 'pipe', 'ignore'] })
    program.streams[0]!.end('all of it')
    expect(await text(program.streams[1]!)).toBe('all of it')
    expect(await program.closed).toEqual({ exitCode: 0, signal: null })
  })

  test('has a stream on any descriptor, both ways', async () => {
    const program = shell('read line <&4; echo "$line too" >&4', {
      stdio: ['ignore', 'ignore', 'ignore', 'ignore', 'pipe'],
    })
    program.streams[4]!.write('here\n')
    expect(String((await once(program.streams[4]!, 'data'))[0])).toBe('here too\n')
    expect((await program.closed).exitCode).toBe(0)
  })

  test('has exactly the environment, the directory and the descriptors it is given', async () => {
    expect(await output('/usr/bin/env', { env: { A: '1', B: 'two words' } })).toContain('B=two words\n')
    expect(await output('/usr/bin/env', { env: { A: '1' } })).not.toContain('PATH=/')
    expect(await output('/usr/bin/env')).toContain('PATH=/')
    expect(await output('pwd', { cwd: directory })).toBe(`${directory}\n`)
    const file = openSync(join(directory, 'given'), 'w')
    await shell('echo into it >&3; ls /proc/self/fd >&3', { stdio: ['ignore', 'ignore', 'ignore', file] })
      .closed
    closeSync(file)
    const [first, ...descriptors] = readFileSync(join(directory, 'given'), 'utf8').trim().split('\n')
    expect(first).toBe('into it')
    // 4 is the one ls reads the directory with.
    expect(descriptors.filter((fd) => !inherited.has(fd)).sort()).toEqual(['0', '1', '2', '3', '4'])
  })

  test('has no signal ignored or blocked, whatever is in this process', async () => {
    const status = await output('cat /proc/self/status')
    expect(/SigIgn:\s*(\w+)/.exec(status)?.[1]).toBe('0000000000000000')
    expect(/SigBlk:\s*(\w+)/.exec(status)?.[1]).toBe('0000000000000000')
  })

  test('is in a session of its own when asked, and only then', async () => {
    const session = 'cut -d" " -f6 /proc/$$/stat; echo $$'
    const [own, pid] = (await output(session, { isDetached: true })).split('\n')
    expect(own).toBe(pid)
    const [shared, other] = (await output(session)).split('\n')
    expect(shared).not.toBe(other)
  })

  test('can be killed, also twice, also when it is gone', async () => {
    const program = shell('sleep 600')
    program.kill('SIGKILL')
    program.kill('SIGKILL')
    expect(await program.exited).toEqual({ exitCode: null, signal: 'SIGKILL' })
    program.kill('SIGKILL')
  })

  test('is closed when its output is, not before', async () => {
    const program = shell('(sleep 0.3; echo late) & exit 0')
    let isClosed = false
    void program.closed.then(() => {
      isClosed = true
    })
    await program.exited
    expect(isClosed).toBe(false)
    expect(await text(program.streams[1]!)).toBe('late\n')
    await program.closed
  })

  test('many at once each tell their own end, and leave no descriptor and no zombie behind', async () => {
    const descriptors = () => readdirSync('/proc/self/fd').length
    await shell('true').closed
    const before = descriptors()
    const programs = Array.from({ length: 40 }, (_, code) => shell(`exit ${code}`))
    const endings = await Promise.all(programs.map(({ closed }) => closed))
    expect(endings.map(({ exitCode }) => exitCode)).toEqual(programs.map((_, code) => code))
    expect(programs.filter(({ pid }) => existsSync(`/proc/${pid}`))).toEqual([])
    await expect.poll(descriptors).toBe(before)
  })

  test.each([
    ['a program that is not there', { argv: ['dormouse-no-such-program'] as [string] }],
    ['a directory that is not there', { argv: ['true'] as [string], cwd: '/no/such/directory' }],
  ])('%s is reported at once', (_what, wanted) => {
    expect(() => start({ stdio: ['ignore', 'pipe', 'pipe'], ...wanted })).toThrow()
  })
})
