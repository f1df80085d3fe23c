import { once } from 'node:events'
import { describe, expect, test } from 'vitest'
import { finish, useSsh } from './ssh-client.ts'

const IDLE_MS = 500
const bench = useSsh({ idleTimeoutMs: 300, idleConnectionMs: IDLE_MS })

const state = async (name = 'box') => {
  const { state, tier } = await bench.server.ok(`/v1/sandboxes/${name}`)
  return tier ?? state
}
const putTo = (tier: string) => bench.server.ok('/v1/sandboxes/box/standby', { json: { tier } })
/** A session that has said something. */
const open = async (args: readonly string[]) => {
  const child = bench.client.start(bench.key, args)
  const ended = finish(child)
  await once(child.stdout as NonNullable<typeof child.stdout>, 'data')
  return { child, ended }
}

describe('SSH and sleep', () => {
  test('a connection wakes a sandbox from memory and from disk, and says so in the ledger', async () => {
    await bench.server.run('box', 'kept = 41')
    for (const tier of ['frozen', 'stored']) {
      await putTo(tier)
      const woken = await bench.exec('echo awake')
      expect([woken.code, woken.stdout.toString(), woken.stderr]).toEqual([0, 'awake\n', ''])
    }
    const { items } = await bench.server.ok('/v1/sandboxes/box/ledger')
    expect(items.filter(({ cause }: { cause: string }) => cause === 'ssh').length).toBeGreaterThanOrEqual(2)
    expect(await bench.server.run('box', 'print(kept + 1)')).toBe('42\n')
  })

  test('a command that says nothing keeps it awake until it ends', async () => {
    const sleeps = async () =>
      (await bench.server.ok('/v1/sandboxes/box/ledger?limit=1000')).items.filter(
        ({ event }: { event: string }) => event === 'slept',
      ).length
    const { child, ended } = await open(['box@127.0.0.1', 'echo begun; sleep 2.5; echo done; exit 6'])
    const before = await sleeps()
    await once(child.stdout as NonNullable<typeof child.stdout>, 'data')
    expect(await state()).toBe('running')
    expect(await sleeps()).toBe(before)
    expect(await ended).toMatchObject({ code: 6, stdout: Buffer.from('begun\ndone\n') })
    await expect.poll(() => state(), { timeout: 20_000 }).not.toBe('running')
  })

  test('a shell in which nothing happens lets it sleep, and a key wakes it', async () => {
    const { child, ended } = await open(['-tt', 'box@127.0.0.1'])
    await expect.poll(() => state(), { timeout: 20_000 }).toMatch(/frozen|stored/)
    child.stdin?.write('exit 4\r')
    expect((await ended).code).toBe(4)
  })

  test('a standby that is asked for stops its sessions; the next of the same connection wakes it', async () => {
    const settings = [`ControlPath=${bench.client.dir}/control`]
    const master = bench.client.start(bench.key, ['-M', '-N', 'box@127.0.0.1'], { settings })
    const check = () => bench.client.ssh(bench.key, ['-O', 'check', 'box@127.0.0.1'], { settings })
    await expect.poll(async () => (await check()).code, { timeout: 20_000 }).toBe(0)
    const child = bench.client.start(bench.key, ['box@127.0.0.1', 'echo in; sleep 1; exit 6'], { settings })
    const ended = finish(child)
    await once(child.stdout as NonNullable<typeof child.stdout>, 'data')
    await putTo('stored')
    expect((await bench.exec('exit 5', { settings })).code).toBe(5)
    expect((await ended).code).toBe(6)
    master.kill()
    await once(master, 'close')
  })

  test('a program that a session began in the background sleeps and wakes with the rest', async () => {
    const beat = 'while :; do date +%s%N > /tmp/next; mv /tmp/next /tmp/beat; sleep 0.1; done'
    await bench.exec(`nohup sh -c "${beat}" > /dev/null 2>&1 &`)
    const inTerminal = 'nohup sleep 1001 > /dev/null 2>&1 & echo back; sleep 0.2'
    const { ended } = await open(['-tt', 'box@127.0.0.1', inTerminal])
    expect((await ended).code).toBe(0)
    await putTo('stored')
    const seen = await bench.exec('cat /tmp/beat; sleep 1; cat /tmp/beat; pgrep -xfc "sleep 1001"')
    const [before, after, sleeps] = seen.stdout.toString().trim().split('\n')
    expect(after).not.toBe(before)
    expect(sleeps).toBe('1')
    await bench.exec('pkill -f beat')
  })

  test('the end of the server ends every connection; deleting a sandbox ends its own', async () => {
    await bench.server.ok('/v1/sandboxes', { json: { name: 'other' } })
    const other = await open(['other@127.0.0.1', 'echo in; sleep 1000'])
    await bench.server.ok('/v1/sandboxes/other', { method: 'DELETE' })
    expect((await other.ended).code).toBe(255)
    const { ended } = await open(['box@127.0.0.1', 'echo in; sleep 1000'])
    await bench.server.stop()
    expect((await ended).code).toBe(255)
    await bench.server.begin()
    await bench.client.learnAddress()
    expect((await bench.exec('echo again')).stdout.toString()).toBe('again\n')
  })
})
