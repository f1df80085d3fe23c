import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { connectRaw, execRaw } from './raw-client.ts'
import { sha256, useSsh } from './ssh-client.ts'
import { untilStalled } from './until-stalled.ts'

const MIB = 1024 ** 2
const bench = useSsh()
const { exec } = bench

describe('a command over SSH', () => {
  test('has stdout and stderr apart, and its exit code', async () => {
    const done = await exec('echo out; echo err >&2; exit 3')
    expect(done).toMatchObject({ code: 3, stderr: 'err\n' })
    expect(done.stdout.toString()).toBe('out\n')
    expect((await exec('true')).code).toBe(0)
    expect((await exec('exit 255')).code).toBe(255)
  })

  test('that a signal ended is reported as such', async () => {
    const told = ['LogLevel=DEBUG']
    expect(await exec('kill -TERM $$', { settings: told })).toMatchObject({
      code: 255,
      stderr: expect.stringContaining('exit-signal'),
    })
    expect((await exec('kill -STKFLT $$')).code).toBe(128 + 16)
  })

  test('hears signals of its client', async () => {
    const client = await connectRaw(bench)
    const channel = await execRaw(
      client,
      'trap "echo heard; exit 5" USR1; echo ready; while :; do sleep 0.05; done',
    )
    let shown = ''
    channel.on('data', (piece: Buffer) => {
      shown += piece
      if (shown === 'ready\n') channel.signal('USR1')
    })
    const [code] = await once(channel, 'exit')
    expect([code, shown]).toEqual([5, 'ready\nheard\n'])
    const other = await execRaw(client, 'echo ready; exec sleep 1000')
    other.once('data', () => other.signal('KILL'))
    expect((await once(other, 'exit')).slice(0, 2)).toEqual([null, 'SIGKILL'])
    client.end()
  })

  test('runs as the user of the sandbox, in its home, with what the client says of its language', async () => {
    const words = 'echo $(whoami) $PWD $LC_TIME [$SECRET] $SSH_CLIENT'
    const settings = ['SetEnv=LC_TIME=C.UTF-8 SECRET=x']
    expect((await exec(words, { settings })).stdout.toString()).toMatch(
      /^root \/root C.UTF-8 \[\] 127.0.0.1 \d+ \d+\n$/,
    )
  })

  test('gets 50 MB of any bytes and gives them back as they were', async () => {
    const sent = randomBytes(50 * MIB)
    const there = await exec('sha256sum', { input: sent })
    expect([there.code, there.stdout.toString().slice(0, 64)]).toEqual([0, sha256(sent)])
    const back = await exec('cat', { input: sent })
    expect([back.code, sha256(back.stdout)]).toEqual([0, sha256(sent)])
  })

  test('that writes to both streams more than any window loses nothing', async () => {
    const code =
      'import sys\nfor n in range(24):\n sys.stdout.write("o" * 1048576); sys.stderr.write("e" * 1048576)'
    const child = bench.client.start(bench.key, ['box@127.0.0.1', `python3 -c '${code}'`])
    const heard = { stdout: 0, stderr: 0 }
    // The streams take turns at being read slowly, so that each has to wait for room behind the other.
    for (const [name, other, letter] of [
      ['stdout', 'stderr', 'o'],
      ['stderr', 'stdout', 'e'],
    ] as const) {
      child[name]?.on('data', (piece: Buffer) => {
        heard[name] += piece.length
        if (!piece.equals(Buffer.alloc(piece.length, letter))) heard[name] = Number.NaN
        child[name]?.pause()
        setTimeout(() => child[name]?.resume(), heard[name] > heard[other] ? 3 : 0)
      })
    }
    const [status] = await once(child, 'close')
    expect({ status, ...heard }).toEqual({ status: 0, stdout: 24 * MIB, stderr: 24 * MIB })
  })

  test('waits for a reader that pauses', async () => {
    const child = bench.client.start(bench.key, ['box@127.0.0.1', 'head -c 64M /dev/zero; echo >&2 written'])
    let said = ''
    child.stderr?.on('data', (piece) => {
      said += piece
    })
    await untilStalled(bench, 'head')
    expect(said).toBe('')
    let bytes = 0
    child.stdout?.on('data', (piece: Buffer) => {
      bytes += piece.length
    })
    await once(child, 'close')
    expect([bytes, said]).toEqual([64 * MIB, 'written\n'])
  })

  test('that stops reading does not hold up its client; one whose client leaves hears of it', async () => {
    const done = await exec('head -c 3; exec 0<&-; sleep 0.2; exit 4', { input: Buffer.alloc(20 * MIB, 'a') })
    expect([done.code, done.stdout.toString()]).toEqual([4, 'aaa'])
    const child = bench.client.start(bench.key, ['box@127.0.0.1', 'echo $$; while echo; do sleep 0.05; done'])
    const [first] = await once(child.stdout as NonNullable<typeof child.stdout>, 'data')
    child.kill('SIGKILL')
    const pid = Number.parseInt(String(first), 10)
    await expect.poll(async () => (await exec(`kill -0 ${pid}`)).code, { timeout: 20_000 }).toBe(1)
  })

  test('ends when all writers have closed; a shell executes what is piped to it', async () => {
    expect((await exec('(sleep 0.4; echo later) & echo now')).stdout.toString()).toBe('now\nlater\n')
    const script = await bench.client.ssh(bench.key, ['box@127.0.0.1'], {
      input: 'x=5\necho $((x + 1))\nexit 9\n',
    })
    expect([script.code, script.stdout.toString()]).toEqual([9, '6\n'])
  })

  test('that cannot be started says why', async () => {
    expect((await exec('/nowhere/program')).code).toBe(127)
    const unknown = await bench.client.ssh(bench.key, ['-s', 'box@127.0.0.1', 'netconf'])
    expect([unknown.code, unknown.stderr]).toEqual([255, expect.stringContaining('subsystem request failed')])
  })
})

describe('several at once', () => {
  test('sessions of one connection keep to themselves', async () => {
    const socket = `${bench.client.dir}/control`
    const shared = [`ControlPath=${socket}`]
    const master = bench.client.start(bench.key, ['-M', '-N', 'box@127.0.0.1'], { settings: shared })
    await expect
      .poll(
        async () =>
          (await bench.client.ssh(bench.key, ['-O', 'check', 'box@127.0.0.1'], { settings: shared })).code,
        { timeout: 20_000 },
      )
      .toBe(0)
    const answers = await Promise.all(
      Array.from({ length: 8 }, async (_, n) => {
        const { code, stdout } = await exec(`cat; sleep 0.${n}; exit ${n}`, {
          input: `input ${n}`,
          settings: shared,
        })
        return [code, stdout.toString()]
      }),
    )
    expect(answers).toEqual(Array.from({ length: 8 }, (_, n) => [n, `input ${n}`]))
    master.kill()
    await once(master, 'close')
  })
})
