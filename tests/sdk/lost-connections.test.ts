import { Dormouse, DormouseError, type RunEvent, Sandbox } from 'dormouse'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Cutter } from './cutter.ts'
import { useSdkServer } from './sdk-server.ts'

const server = useSdkServer()
let cutter: Cutter
let sandbox: Sandbox

beforeAll(async () => {
  cutter = await Cutter.start(server.process)
  const client = server.clientWith({ url: cutter.url })
  sandbox = await Sandbox.create({ idleTimeoutMs: 0 }, { client })
})
beforeEach(() => {
  cutter.nextCutBytes = () => undefined
  cutter.cuts = 0
})
afterAll(() => cutter.stop())

/** From the first byte of the headers to well inside the events; always the same ones. */
function randomCuts(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return 1 + (state % 1500)
  }
}

describe('a connection that breaks', () => {
  test.each([1, 2, 3])('at random bytes loses no event and repeats none (seed %i)', async (seed) => {
    await sandbox.runCode('times = 0')
    cutter.nextCutBytes = randomCuts(seed)
    const events: RunEvent[] = []
    const code = 'import time\ntimes += 1\nfor i in range(150): print("é", i, flush=True); time.sleep(0.002)'
    for await (const event of sandbox.runCodeStream(code)) events.push(event)
    cutter.nextCutBytes = () => undefined
    expect(cutter.cuts).toBeGreaterThan(3)
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_event, index) => index))
    const text = events.map((event) => (event.type === 'stdout' ? event.data : '')).join('')
    expect(text).toBe(Array.from({ length: 150 }, (_, i) => `é ${i}\n`).join(''))
    expect((await sandbox.runCode('times')).text).toBe('1')
  })

  test('while code runs a hundred times over runs it a hundred times', async () => {
    await sandbox.runCode('count = 0')
    cutter.nextCutBytes = randomCuts(7)
    for (let i = 1; i <= 100; i += 1)
      expect((await sandbox.runCode('count += 1; count')).text).toBe(String(i))
    expect(cutter.cuts).toBeGreaterThan(20)
  })

  test('in the middle of a file continues where it was', async () => {
    const bytes = new Uint8Array(3 * 1024 ** 2).map((_, index) => (index * 7) % 253)
    await sandbox.files.write('/tmp/data', bytes)
    cutter.nextCutBytes = () => 700_000
    const found = await sandbox.files.readBytes('/tmp/data')
    expect(Buffer.compare(found, bytes)).toBe(0)
    expect(cutter.cuts).toBeGreaterThanOrEqual(4)
  })

  test('in the middle of a file that has changed since throws, and two files are never mixed', async () => {
    await sandbox.files.write('/tmp/data', new Uint8Array(2 * 1024 ** 2).fill(1))
    cutter.nextCutBytes = () => 900_000
    const reader = sandbox.files.stream('/tmp/data').getReader()
    await reader.read()
    const direct = await Sandbox.connect(sandbox.id, { client: server.client })
    await direct.files.write('/tmp/data', new Uint8Array(2 * 1024 ** 2).fill(2))
    const reading = (async () => {
      for (let next = await reader.read(); !next.done; next = await reader.read())
        if (next.value.includes(2)) throw new Error('mixed')
    })()
    await expect(reading).rejects.toMatchObject({ code: 'conflict' })
  })

  test('in the middle of a file that is shorter now throws', async () => {
    await sandbox.files.write('/tmp/data', new Uint8Array(2 * 1024 ** 2).fill(1))
    cutter.nextCutBytes = () => 900_000
    const reader = sandbox.files.stream('/tmp/data').getReader()
    await reader.read()
    const direct = await Sandbox.connect(sandbox.id, { client: server.client })
    await direct.commands.run('truncate -s 10 /tmp/data')
    const reading = (async () => {
      for (let next = await reader.read(); !next.done; next = await reader.read());
    })()
    await expect(reading).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('changed while it was read'),
      hint: expect.stringContaining('copy'),
    })
  })

  test('of a command or a watch is opened again', async () => {
    await sandbox.files.mkdir('/root/w')
    const types: string[] = []
    const watching = (async () => {
      for await (const { type } of sandbox.files.watch('/root/w')) {
        types.push(type)
        if (type === 'ready') cutter.cut()
        if (type === 'overflow') await sandbox.files.write('/root/w/x', '1')
        if (type === 'created' || type === 'moved') return
      }
    })()
    await watching
    expect(types.slice(0, 2)).toEqual(['ready', 'overflow'])
    let shown = ''
    const cutAt = [20, 60]
    const onStdout = (text: string) => {
      shown += text
      if (!shown.includes(`\n${cutAt[0]}\n`)) return
      cutAt.shift()
      cutter.cut()
    }
    const command = 'for i in $(seq 100); do echo $i; sleep 0.01; done'
    const running = sandbox.commands.run(command, { onStdout })
    expect((await running).stdout).toBe(Array.from({ length: 100 }, (_, i) => `${i + 1}\n`).join(''))
  })

  test('before the answer to a create makes no second sandbox; with getOrCreate it finds the first', async () => {
    const before = await server.ids()
    cutter.nextCutBytes = () => 10
    const client = server.clientWith({ url: cutter.url })
    await expect(Sandbox.create({ idleTimeoutMs: 0 }, { client })).rejects.toMatchObject({
      code: 'server_unreachable',
    })
    expect(cutter.cuts).toBe(1)
    let left = 2
    cutter.nextCutBytes = () => (left-- > 0 ? 10 : undefined)
    const named = await Sandbox.getOrCreate('found-again', { idleTimeoutMs: 0 }, { client })
    cutter.nextCutBytes = () => undefined
    const after = await server.ids()
    expect(after.length - before.length).toBeLessThanOrEqual(2)
    expect(after).toContain(named.id)
    for (const id of after.filter((each) => !before.includes(each)))
      await (await Sandbox.connect(id, { client: server.client })).delete()
  })

  test('before the answer to a delete is not an error', async () => {
    const { id } = await server.create()
    let left = 1
    const doomed = await Sandbox.connect(id, { client: server.clientWith({ url: cutter.url }) })
    cutter.cut()
    cutter.nextCutBytes = () => (left-- > 0 ? 5 : undefined)
    await doomed.delete()
    expect(await server.ids()).not.toContain(id)
  })
})

describe('a server that is killed and started again', () => {
  test('in the middle of a run loses no event, also for a client that found it by its file', async () => {
    const { factory } = server.process
    const client = new Dormouse({ dataDir: factory.stateDir })
    const found = await Sandbox.connect(sandbox.id, { client })
    const code = 'import time\nfor i in range(100): print(i, flush=True); time.sleep(0.03)\n"over"'
    await Promise.all(['one', 'two'].map((context) => found.contexts.create(context)))
    let printed = () => {}
    const underWay = new Promise<void>((resolve) => (printed = resolve))
    const onStdout = (text: string) => (text.includes('20') ? printed() : undefined)
    const running = Promise.all([
      found.runCode(code, { context: 'one' }),
      sandbox.runCode(code, { context: 'two', onStdout }),
    ])
    await underWay
    await server.process.kill()
    await server.process.begin()
    const expected = Array.from({ length: 100 }, (_, i) => `${i}\n`).join('')
    for (const run of await running)
      expect(run).toMatchObject({ stdout: expected, text: "'over'", exitCode: 0 })
  })
})

describe('waiting', () => {
  const answers = (statuses: (() => Response)[]) => {
    const asked: number[] = []
    const fetch = async () => {
      asked.push(Date.now())
      return (statuses.shift() ?? (() => Response.json({ status: 'ok', version: '1' })))()
    }
    return {
      asked,
      client: new Dormouse({
        url: 'http://127.0.0.1:1',
        apiKey: 'x',
        fetch: fetch as typeof globalThis.fetch,
      }),
    }
  }
  const refusal =
    (code: string, status: number, headers: Record<string, string> = {}) =>
    () =>
      Response.json(
        { error: { code, message: code, hint: '', requestId: 'r', docs: '' } },
        { status, headers },
      )

  test('is as long as the server asks, also for calls that are not repeatable', async () => {
    const { asked, client } = answers([refusal('overloaded', 503, { 'retry-after': '1' })])
    await client.volumes.create({ name: 'v' })
    expect(asked).toHaveLength(2)
    expect((asked[1] ?? 0) - (asked[0] ?? 0)).toBeGreaterThanOrEqual(990)
  })

  test('does not happen for refused calls, nor for calls that may have succeeded', async () => {
    for (const [code, status] of [
      ['limit_reached', 429],
      ['no_space', 507],
      ['agent_unreachable', 502],
    ] as const) {
      const { asked, client } = answers([refusal(code, status)])
      await expect(client.volumes.create({ name: 'v' })).rejects.toMatchObject({ code, status })
      expect(asked).toHaveLength(1)
    }
  })

  test('happens for a read that a proxy could not forward', async () => {
    const { asked, client } = answers([() => new Response('<html>Bad Gateway</html>', { status: 502 })])
    expect(await client.health()).toMatchObject({ status: 'ok' })
    expect(asked).toHaveLength(2)
  })

  test('ends at the time-out, and at the signal', async () => {
    const fetch = (_url: unknown, init?: RequestInit) =>
      new Promise<Response>((_resolve, reject) => {
        init?.signal?.addEventListener('abort', () => reject(init.signal?.reason))
      })
    const options = { url: 'http://127.0.0.1:1', apiKey: 'x', fetch: fetch as typeof globalThis.fetch }
    const slow = new Dormouse({ ...options, timeoutMs: 50 })
    const error = await slow.volumes.create({ name: 'v' }).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(DormouseError)
    expect(error).toMatchObject({ code: 'server_unreachable' })
    const client = new Dormouse(options)
    await expect(client.health({ signal: AbortSignal.timeout(50) })).rejects.toMatchObject({
      code: 'timed_out',
    })
  })
})
