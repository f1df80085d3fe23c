import { Dormouse, Sandbox } from 'dormouse'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ServerProcess } from '../server/server-process.ts'
import { SshClient } from '../ssh/ssh-client.ts'
import { LEASE_MS, TestCluster } from './test-cluster.ts'

let cluster: TestCluster
let one: ServerProcess
let two: ServerProcess
let key: string

beforeAll(async () => {
  cluster = await TestCluster.start({ hosts: 2 })
  ;[one, two] = cluster.hosts as [ServerProcess, ServerProcess]
  key = one.key
})

afterAll(() => cluster?.cleanUp())

const names = async (host: ServerProcess, path: string): Promise<string[]> =>
  (await host.ok(path, { key })).items.map((item: { name: string }) => item.name).sort()

describe('a cluster shares', () => {
  it('secrets: made, changed and deleted on any host, with values that every host can use', async () => {
    await expect.poll(async () => (await two.call('/v1/sandboxes', { key })).status).toBe(200)
    const made = await one.ok('/v1/secrets', {
      json: { name: 'TOKEN', value: 'first-value', domains: ['a.example'] },
    })
    await expect.poll(() => names(two, '/v1/secrets')).toContain('TOKEN')
    expect(await two.ok('/v1/secrets/TOKEN', { key })).toMatchObject({ placeholder: made.placeholder })
    await two.ok('/v1/secrets/TOKEN', { method: 'PATCH', json: { domains: ['b.example'] }, key })
    await expect.poll(async () => (await one.ok('/v1/secrets/TOKEN')).domains).toEqual(['b.example'])
    const { id } = await two.ok('/v1/sandboxes', { json: { secrets: ['TOKEN'] }, key })
    const { stdout } = await two.ok(`/v1/sandboxes/${id}/run`, {
      json: { code: 'import os; print(os.environ["TOKEN"])' },
      key,
    })
    expect(stdout.trim()).toBe(made.placeholder)
    await two.call(`/v1/sandboxes/${id}`, { method: 'DELETE', key })
    await two.call('/v1/secrets/TOKEN', { method: 'DELETE', key })
    await expect.poll(() => names(one, '/v1/secrets')).toEqual([])
  })

  it('webhooks and schedules', async () => {
    await one.ok('/v1/webhooks', {
      json: { name: 'hook', url: 'https://a.example/x', events: ['job.ended'] },
    })
    await two.ok('/v1/schedules', {
      json: { name: 'often', cron: '0 0 1 1 *', action: { type: 'run', sandbox: 'x', code: '1' } },
      key,
    })
    await expect.poll(() => names(two, '/v1/webhooks')).toEqual(['hook'])
    await expect.poll(() => names(one, '/v1/schedules')).toEqual(['often'])
  })

  it('quotas: what a key may have is counted on all hosts', async () => {
    const made = await one.ok('/v1/keys', {
      json: { name: 'two', scopes: ['run'], quotas: { sandboxes: 2 } },
    })
    const limited = { key: made.key as string }
    await expect.poll(async () => (await two.call('/v1/sandboxes', limited)).status).toBe(200)
    const answers = await Promise.all(
      [one, two, one, two].map((host) => host.call('/v1/sandboxes', { json: {}, ...limited })),
    )
    const created = answers.filter(({ status }) => status === 201)
    expect(created.length).toBeLessThanOrEqual(2)
    for (const { status, body } of answers) if (status !== 201) expect(body.error.code).toBe('limit_reached')
    for (const { body } of created)
      await one.call(`/v1/sandboxes/${body.id}`, { method: 'DELETE', ...limited })
    const first = await one.ok('/v1/sandboxes', { json: {}, ...limited })
    const second = await two.ok('/v1/sandboxes', { json: {}, ...limited })
    expect((await two.call('/v1/sandboxes', { json: {}, ...limited })).body.error.code).toBe('limit_reached')
    for (const { id } of [first, second])
      await one.call(`/v1/sandboxes/${id}`, { method: 'DELETE', ...limited })
  })

  it('events: one stream, which a reader continues on another host', async () => {
    const read = async (host: ServerProcess, after: number | undefined, until: (text: string) => boolean) => {
      const stop = new AbortController()
      const query = after === undefined ? '' : `?after=${after}`
      const response = await host.fetch(`/v1/events${query}`, {
        ...{ key, headers: { accept: 'application/x-ndjson' }, signal: stop.signal },
      })
      let text = ''
      for await (const piece of response.body as unknown as AsyncIterable<Uint8Array>) {
        text += Buffer.from(piece).toString()
        if (until(text)) break
      }
      stop.abort()
      return text
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line))
    }
    const reading = read(two, undefined, (text) => text.includes('"created"'))
    const { id } = await one.ok('/v1/sandboxes', { json: {} })
    const seen = await reading
    expect(seen.filter(({ sandboxId }) => sandboxId === id).length).toBeGreaterThan(0)
    const last = seen.at(-1).seq
    await two.call(`/v1/sandboxes/${id}`, { method: 'DELETE', key })
    const rest = await read(one, last, (text) => text.includes('sandbox.deleted'))
    expect(rest.map(({ type }) => type)).not.toContain('gap')
    expect(rest.every(({ seq }, index) => seq > (index === 0 ? last : rest[index - 1].seq))).toBe(true)
    expect(rest).toContainEqual(expect.objectContaining({ type: 'sandbox.deleted', sandboxId: id }))
  })

  it('usage: sandboxes of all hosts, from any host', async () => {
    const { id: here } = await one.ok('/v1/sandboxes', { json: {} })
    const { id: there } = await two.ok('/v1/sandboxes', { json: {}, key })
    await one.run(here, 'sum(range(10**6))')
    for (const host of [one, two]) {
      const { sandboxes, total } = await host.ok('/v1/usage', { key })
      const ids = sandboxes.map(({ sandboxId }: { sandboxId: string }) => sandboxId)
      expect(ids).toEqual(expect.arrayContaining([here, there]))
      expect(new Set(ids).size).toBe(ids.length)
      const sum = sandboxes.reduce((all: number, { cost }: { cost: number }) => all + cost, 0)
      expect(total.cost).toBeCloseTo(sum, 9)
    }
    for (const id of [here, there]) await one.call(`/v1/sandboxes/${id}`, { method: 'DELETE' })
  })

  it('templates: a sandbox of one that was made on another host', async () => {
    const { id } = await one.ok('/v1/sandboxes', { json: {} })
    await one.run(id, 'kept = 42; open("/root/made", "w").write("there")')
    const snapshot = await one.ok(`/v1/sandboxes/${id}/snapshots`, { json: {} })
    await one.ok('/v1/templates', { json: { name: 'mine', snapshotId: snapshot.id } })
    await expect.poll(() => names(two, '/v1/templates')).toContain('mine')
    const made = await two.call('/v1/sandboxes', { json: { template: 'mine' }, key })
    expect(made.status, JSON.stringify(made.body)).toBe(201)
    const { stdout } = await two.ok(`/v1/sandboxes/${made.body.id}/run`, {
      json: { code: 'print(kept, open("/root/made").read())' },
      key,
    })
    expect(stdout).toBe('42 there\n')
    for (const gone of [id, made.body.id]) await one.call(`/v1/sandboxes/${gone}`, { method: 'DELETE' })
    await two.call('/v1/templates/mine', { method: 'DELETE', key })
    await expect.poll(() => names(one, '/v1/templates')).not.toContain('mine')
  })

  it('jobs: results from any host, in one list', async () => {
    const job = await one.ok('/v1/jobs', { json: { code: 'item * 2', inputs: [1, 2] } })
    const ended = async () => (await two.ok(`/v1/jobs/${job.id}`, { key })).state
    await expect.poll(ended, { timeout: 30_000, interval: 300 }).toBe('finished')
    const { items } = await two.ok(`/v1/jobs/${job.id}/tasks`, { key })
    expect(items.map(({ state }: { state: string }) => state)).toEqual(['succeeded', 'succeeded'])
    const { items: jobs } = await two.ok('/v1/jobs', { key })
    expect(jobs.map(({ id }: { id: string }) => id)).toEqual([job.id])
    await two.call(`/v1/jobs/${job.id}`, { method: 'DELETE', key })
    await expect.poll(async () => (await one.ok('/v1/jobs')).items).toEqual([])
  })

  it('schedules: each time fires once, on the host of its sandbox', async () => {
    const { id } = await one.ok('/v1/sandboxes', { json: {} })
    await one.run(id, 'fired = []')
    await two.ok('/v1/schedules', {
      json: {
        ...{ name: 'each', cron: '* * * * * *' },
        action: { type: 'run', sandbox: id, code: 'import time; fired.append(time.time())' },
      },
      key,
    })
    const firings = async (host: ServerProcess) =>
      (await host.ok('/v1/schedules/each/firings', { key })).items as { at: string; state: string }[]
    await expect
      .poll(async () => (await firings(one)).filter(({ state }) => state === 'done').length, {
        ...{ timeout: 20_000, interval: 300 },
      })
      .toBeGreaterThan(2)
    await two.ok('/v1/schedules/each', { method: 'PATCH', json: { enabled: false }, key })
    const done = async (host: ServerProcess) =>
      (await firings(host)).filter(({ state }) => state === 'done').map(({ at }) => at)
    await expect.poll(() => done(two)).toEqual(await done(one))
    await expect
      .poll(async () => Number(await one.run(id, 'print(len(fired))')))
      .toBe((await done(one)).length)
    await one.call(`/v1/sandboxes/${id}`, { method: 'DELETE' })
    await one.ok('/v1/schedules/each', { method: 'DELETE' }).catch(() => undefined)
  })

  it('SSH: any host leads to a sandbox, with its exit status and a copy of a file', async () => {
    await one.ok('/v1/sandboxes', { json: { name: 'box' } })
    await expect.poll(async () => (await two.call('/v1/sandboxes/box', { key })).status).toBe(200)
    const client = await SshClient.open(two)
    try {
      const identity = await client.addKey('laptop', { key })
      const ssh = (command: string) => client.ssh(identity, ['box@127.0.0.1', command])
      const done = await ssh('echo out; echo err >&2; head -c 3000000 /dev/zero | wc -c; exit 7')
      expect(done).toMatchObject({ code: 7, stderr: 'err\n' })
      expect(done.stdout.toString()).toBe('out\n3000000\n')
      const large = await ssh('head -c 3000000 /dev/zero')
      expect(large.stdout.length).toBe(3_000_000)
      // A beginning is enough while no other sandbox of either host has it.
      const begun = await client.ssh(identity, ['bo@127.0.0.1', 'echo begun'])
      expect(begun.stdout.toString()).toBe('begun\n')
      await two.ok('/v1/sandboxes', { json: { name: 'bolt' }, key })
      const unclear = await client.ssh(identity, ['bo@127.0.0.1', 'echo begun'])
      expect(unclear.code).not.toBe(0)
      expect(unclear.stderr).toMatch(/"bo" could be .*bo(?:x|lt)/)
    } finally {
      await client.close()
      for (const name of ['box', 'bolt']) await one.call(`/v1/sandboxes/${name}`, { method: 'DELETE' })
    }
  })

  it('overview, activity and family trees: of the sandboxes of all hosts', async () => {
    const before = await two.ok('/v1/overview', { key })
    const parent = await one.ok('/v1/sandboxes', { json: { name: 'parent' } })
    await one.ok('/v1/sandboxes/parent/run', { json: { code: 'x = 1' } })
    const { children } = await one.ok('/v1/sandboxes/parent/fork', { json: { count: 1 } })
    const child = children[0].id
    const { items: nodes } = await one.ok('/v1/nodes')
    const other = nodes.find(({ isSelf }: { isSelf: boolean }) => !isSelf).id
    await one.ok(`/v1/sandboxes/${child}/move`, { json: { node: other } })
    await two.ok(`/v1/sandboxes/${child}/run`, { json: { code: 'x' }, key })
    for (const host of [one, two]) {
      const counts = async () => (await host.ok('/v1/overview', { key })).running
      await expect.poll(counts).toBe(before.running + 2)
      const { items } = await host.ok(`/v1/activity?ids=${parent.id},${child}`, { key })
      expect(items.map(({ sandboxId }: { sandboxId: string }) => sandboxId)).toEqual([parent.id, child])
      const tree = async () =>
        (await host.ok(`/v1/sandboxes/${parent.id}/tree`, { key })).nodes
          .filter(({ kind }: { kind: string }) => kind === 'sandbox')
          .map(({ id, parentId, state }: Record<string, string>) => [id, parentId, state])
      const family = [
        [parent.id, undefined, 'running'],
        [child, parent.id, 'running'],
      ]
      await expect.poll(tree).toEqual(family)
      expect((await host.ok(`/v1/sandboxes/${child}/tree`, { key })).nodes).toHaveLength(
        (await host.ok(`/v1/sandboxes/${parent.id}/tree`, { key })).nodes.length,
      )
    }
    // The host that did not wake the child has heard of it.
    const wakes = async () => (await one.ok('/v1/overview')).wakes.count
    await expect.poll(wakes).toBeGreaterThan(0)
    for (const id of [child, parent.id]) await one.call(`/v1/sandboxes/${id}`, { method: 'DELETE' })
  })

  it('SDKs: go straight to the host of a sandbox once an answer has named it', async () => {
    const { id } = await one.ok('/v1/sandboxes', { json: {} })
    await expect.poll(async () => (await two.call(`/v1/sandboxes/${id}`, { key })).status).toBe(200)
    const asked: string[] = []
    const client = new Dormouse({
      ...{ url: two.url, apiKey: key },
      fetch: (input, init) => {
        asked.push(new URL(String(input)).origin)
        return fetch(input, init)
      },
    })
    const sandbox = await Sandbox.connect(id, { client })
    const askedAfterRun = async () => {
      await sandbox.runCode('1')
      return asked.at(-1)
    }
    await expect.poll(askedAfterRun).toBe(one.url)
    await one.call(`/v1/sandboxes/${id}`, { method: 'DELETE' })
  })

  it('changes that a host made while it was gone from the others, after its restart', async () => {
    await one.ok('/v1/sandboxes', { json: { name: 'left' } })
    await one.ok('/v1/sandboxes/left/run', {
      json: { code: 'open("/tmp/kept", "w").write("of a lost host")' },
    })
    await one.ok('/v1/sandboxes/left/standby', { json: { tier: 'stored', durability: 'cluster' } })
    await one.kill()
    // Over SSH, too, the next host takes over what a lost one had.
    const client = await SshClient.open(two)
    try {
      const identity = await client.addKey('desktop', { key })
      const read = async () =>
        (await client.ssh(identity, ['left@127.0.0.1', 'cat /tmp/kept'])).stdout.toString()
      await expect.poll(read, { timeout: 10 * LEASE_MS, interval: 500 }).toBe('of a lost host')
    } finally {
      await client.close()
    }
    await two.call('/v1/sandboxes/left', { method: 'DELETE', key })
    await two.ok('/v1/secrets', { json: { name: 'LATER', value: 'some-value', domains: ['a.example'] }, key })
    await two.ok('/v1/webhooks/hook', { method: 'DELETE', key })
    await one.begin()
    expect(await names(one, '/v1/secrets')).toEqual(['LATER'])
    expect(await names(one, '/v1/webhooks')).toEqual([])
  })
})
