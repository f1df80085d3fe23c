import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { powerCut } from './power-cut.ts'
import { ServerProcess } from './server-process.ts'

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start()
})
afterEach(() => server.clear())
afterAll(() => server?.cleanUp())

/** What a client can rely on: what was acknowledged. */
class Client {
  readonly counts = new Map<string, number>()
  isStopped = false

  async work(name: string, round: number): Promise<void> {
    await server.ok('/v1/sandboxes', {
      json: { name, getOrCreate: true, idleTimeoutMs: 0, metadata: { round: String(round) } },
    })
    await server.run(name, 'try: n\nexcept NameError: n = 0')
    for (let step = 0; !this.isStopped; step += 1) {
      const key = `${name}-${round}-${step}`
      await server.ok(`/v1/sandboxes/${name}/run`, { json: { code: 'n += 1', idempotencyKey: key } })
      this.counts.set(name, (this.counts.get(name) ?? 0) + 1)
      if (step % 3 === 1) await server.ok(`/v1/sandboxes/${name}/standby`, { json: { tier: 'stored' } })
      if (step % 3 === 2) await server.ok(`/v1/sandboxes/${name}/standby`, { json: { tier: 'frozen' } })
      if (step % 4 === 3) {
        const { children } = await server.ok(`/v1/sandboxes/${name}/fork`, { json: { count: 1 } })
        await server.ok(`/v1/sandboxes/${children[0].id}`, { method: 'DELETE' })
      }
    }
  }
}

describe('kill -9 of the server', () => {
  test('at any moment: nothing acknowledged is lost, nothing is done twice, nothing is left over', async () => {
    const names = ['ada', 'bob', 'cyd']
    const total = new Map<string, number>()
    const pending = new Map<string, string>()
    for (let round = 0; round < 6; round += 1) {
      const client = new Client()
      const working = names.map((name) => client.work(name, round).catch(() => pending.set(name, name)))
      // On a machine that is busy nothing may have come about so soon, and there is nothing to lose.
      if (round === 0) await expect.poll(() => client.counts.size, { timeout: 60_000 }).toBe(names.length)
      await sleep(900 + round * 317)
      await server.kill()
      client.isStopped = true
      await Promise.all(working)
      await server.begin()
      for (const [name, count] of client.counts) total.set(name, (total.get(name) ?? 0) + count)
      for (const name of names) {
        const n = Number(await server.run(name, 'print(n)'))
        const acknowledged = total.get(name) ?? 0
        // One may have been under way: it was done, or it was not.
        expect(n - acknowledged, `${name} in round ${round}`).toBeGreaterThanOrEqual(0)
        expect(n - acknowledged, `${name} in round ${round}`).toBeLessThanOrEqual(1)
        total.set(name, n)
      }
    }
    const { items } = await server.ok('/v1/sandboxes')
    // A fork that was not acknowledged is undone; one that was may still wait for its deletion.
    expect(items.length).toBeLessThanOrEqual(names.length * 2)
    for (const { id } of items) await server.ok(`/v1/sandboxes/${id}`, { method: 'DELETE' })
    expect(await server.factory.traces()).toEqual([])
    expect((await server.ok('/v1/snapshots')).items).toEqual([])
  }, 240_000)

  test('runs continue without a server, and their events have no gap', async () => {
    await server.ok('/v1/sandboxes', { json: { name: 'run', idleTimeoutMs: 0 } })
    const code = 'import time\nfor i in range(20):\n  print(i, flush=True)\n  time.sleep(0.1)'
    const response = await server.fetch('/v1/sandboxes/run/run', {
      json: { code, idempotencyKey: 'once' },
      headers: { accept: 'application/x-ndjson' },
    })
    const reader = response.body?.getReader()
    let text = ''
    // Some events more than are read again below.
    while (text.split('\n').length < 6) text += new TextDecoder().decode((await reader?.read())?.value)
    const { runId } = JSON.parse(text.split('\n')[0] ?? '')
    await server.kill()
    await server.begin()
    const rest = await (
      await server.fetch(`/v1/sandboxes/run/runs/${runId}/events?after=2`, {
        headers: { accept: 'application/x-ndjson' },
      })
    ).text()
    const events = rest
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 3))
    expect(events.at(-1)).toMatchObject({ type: 'exit', exitCode: 0 })
    const again = await server.ok('/v1/sandboxes/run/run', { json: { code, idempotencyKey: 'once' } })
    expect(again).toMatchObject({ runId, stdout: Array.from({ length: 20 }, (_, i) => `${i}\n`).join('') })
    await server.ok('/v1/sandboxes/run', { method: 'DELETE' })
  })

  test('SIGTERM puts everything to standby, and the next server wakes it', async () => {
    await server.ok('/v1/sandboxes', { json: { name: 'term', idleTimeoutMs: 0 } })
    await server.run('term', 'x = 5')
    await server.stop()
    expect(server.lines.at(-1)).toContain('1 sandboxes put to standby')
    expect(await server.factory.traces()).toEqual([])
    await server.begin()
    expect(await server.ok('/v1/sandboxes/term')).toMatchObject({ state: 'standby', tier: 'stored' })
    expect(await server.run('term', 'print(x)')).toBe('5\n')
    await server.ok('/v1/sandboxes/term', { method: 'DELETE' })
  })

  test('a host that goes down: what slept wakes, what ran comes back from its last snapshot and says so, files are kept', async () => {
    for (const name of ['asleep', 'iced', 'awake', 'young']) {
      await server.ok('/v1/sandboxes', { json: { name, idleTimeoutMs: 0 } })
      await server.run(name, 'x = "saved"; open("/root/f", "w").write("saved")')
    }
    await server.ok('/v1/sandboxes/asleep/standby', { json: { tier: 'stored' } })
    await server.ok('/v1/sandboxes/iced/standby', { json: { tier: 'frozen' } })
    await server.ok('/v1/sandboxes/awake/standby', { json: { tier: 'stored' } })
    await server.run('awake', 'x = "later"; open("/root/f", "w").write("later")')
    await server.kill()
    await powerCut(server.factory)
    await server.begin()
    for (const name of ['asleep', 'iced']) {
      const { state, tier, lostSince } = await server.ok(`/v1/sandboxes/${name}`)
      expect({ name, state, tier, lostSince }).toEqual({ name, state: 'standby', tier: 'stored' })
      expect(await server.run(name, 'print(x, open("/root/f").read())')).toBe('saved saved\n')
    }
    const awake = await server.ok('/v1/sandboxes/awake')
    expect(awake).toMatchObject({ state: 'standby', lostSince: expect.any(String) })
    expect(await server.run('awake', 'print(x, open("/root/f").read())')).toBe('saved saved\n')
    const { items } = await server.ok(`/v1/snapshots?sandboxId=${awake.id}`)
    const kept = items.find(({ kind }: { kind: string }) => kind === 'files')
    await server.ok('/v1/sandboxes/awake/rollback', { json: { snapshotId: kept.id } })
    expect(await server.run('awake', 'print("x" in globals(), open("/root/f").read())')).toBe('False later\n')
    // Never saved, so its memory is gone; its files are not.
    expect(await server.ok('/v1/sandboxes/young')).toMatchObject({ lostSince: expect.any(String) })
    expect(await server.run('young', 'print("x" in globals(), open("/root/f").read())')).toBe('False saved\n')
    for (const name of ['asleep', 'iced', 'awake', 'young'])
      await server.ok(`/v1/sandboxes/${name}`, { method: 'DELETE' })
  })
})
