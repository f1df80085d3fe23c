import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ClusterKey, connectCluster, STATE_FORMAT } from '@dormouse/cluster'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { VERSION } from '../../packages/server/src/version.ts'
import type { ServerProcess } from '../server/server-process.ts'
import { buildOlderVersion, HAS_HISTORY, OLDER } from './older-version.ts'
import { makeOwnTemplate, removeOwnTemplate } from './own-template.ts'
import { LEASE_MS, TestCluster } from './test-cluster.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Json = any

const SLOW = { timeout: 30 * LEASE_MS, interval: 300 }
const NAMES = ['one', 'two']

// Skip: what was unpacked without Git, or cloned without its history, has no earlier commit.
describe.skipIf(!HAS_HISTORY)(
  'an earlier commit beside this version (needs the history of the repository)',
  () => {
    let directory: string
    let older: string
    let cluster: TestCluster
    let one: ServerProcess
    let two: ServerProcess
    let key: string
    const isOlder = new Map(NAMES.map((name) => [name, true]))

    /** Two hosts of the earlier version with tools of their own, as machines have them. */
    beforeAll(async () => {
      older = await buildOlderVersion()
      directory = await mkdtemp(join(tmpdir(), 'dormouse-versions-'))
      // Programs run in these roots with the ids of sandboxes.
      await chmod(directory, 0o711)
      cluster = await TestCluster.start({ hosts: 0, idleTimeoutMs: 0, logLevel: 'fatal' })
      for (const name of NAMES) {
        // The same build of the template: what the versions need of each other are guest tools.
        const toolsDir = await makeOwnTemplate(join(directory, name), 'both', new Date(Date.UTC(2026, 0, 1)))
        const program = () => (isOlder.get(name) === true ? older : undefined)
        await cluster.addHost({}, { toolsDir, program })
      }
      ;[one, two] = cluster.hosts as [ServerProcess, ServerProcess]
      key = one.key
    }, 180_000)

    afterAll(async () => {
      await cluster?.cleanUp()
      for (const name of NAMES) await removeOwnTemplate(join(directory, name))
      await rm(directory, { recursive: true, force: true })
    })

    const run = async (host: ServerProcess, id: string, code: string): Promise<string> => {
      const { stdout, stderr } = await host.ok(`/v1/sandboxes/${id}/run`, { json: { code }, key })
      return `${stdout}${stderr}`.trim()
    }
    const make = async (host: ServerProcess, value: string): Promise<string> => {
      const { id } = await host.ok('/v1/sandboxes', { json: {}, key })
      expect(await placeOf(host, id)).toBe(host.url)
      await run(host, id, `value = "${value}"`)
      return id
    }
    const nodeOf = async (host: ServerProcess): Promise<string> =>
      (await host.ok('/v1/nodes', { key })).items.find(({ isSelf }: Json) => isSelf).id
    const placeOf = async (host: ServerProcess, id: string) =>
      (await host.fetch(`/v1/sandboxes/${id}`, { key })).headers.get('dormouse-host') ?? host.url
    const move = async (from: ServerProcess, id: string, to: ServerProcess) => {
      await from.ok(`/v1/sandboxes/${id}/move`, { json: { node: await nodeOf(to) }, key })
      // Another host is asked, and passes the request on to that of the other version.
      const value = await run(from, id, 'print(value)')
      expect(await placeOf(from, id)).toBe(to.url)
      return value
    }
    /** The versions that a host sees, of itself first. */
    const versionsAt = async (host: ServerProcess): Promise<string[]> => {
      const { items } = (await host.call('/v1/nodes', { key })).body
      const alive = items.filter(({ state }: Json) => state === 'alive')
      return alive.sort((a: Json, b: Json) => b.isSelf - a.isSelf).map(({ version }: Json) => version)
    }
    const sleep = (host: ServerProcess, id: string) =>
      host.ok(`/v1/sandboxes/${id}/standby`, { json: { tier: 'stored', durability: 'cluster' }, key })

    it('sandboxes wake, move and survive a host in both directions while hosts are upgraded one by one', {
      timeout: 240_000,
    }, async () => {
      const first = await make(one, 'of one')
      const second = await make(two, 'of two')
      await sleep(two, second)
      await two.stop()
      isOlder.set('two', false)
      await two.begin()
      await expect.poll(() => versionsAt(one), SLOW).toEqual([OLDER, VERSION])
      await expect.poll(() => versionsAt(two), SLOW).toEqual([VERSION, OLDER])
      expect(await run(two, second, 'print(value)')).toBe('of two')

      const third = await make(two, 'of the newer')
      expect(await move(one, first, two)).toBe('of one')
      expect(await move(two, third, one)).toBe('of the newer')
      await run(two, first, 'value = "changed"')
      await run(one, third, 'value = "changed, too"')
      expect(await move(two, first, one)).toBe('changed')
      expect(await move(one, third, two)).toBe('changed, too')
      await shareState()

      await sleep(two, third)
      await two.kill()
      const valueAt = (host: ServerProcess, id: string) => async () =>
        (await host.call(`/v1/sandboxes/${id}/run`, { json: { code: 'print(value)' }, key })).body.stdout
      await expect.poll(valueAt(one, third), SLOW).toBe('changed, too\n')
      await two.begin()
      await expect.poll(() => versionsAt(one), SLOW).toEqual([OLDER, VERSION])
      await sleep(one, first)
      await sleep(one, third)
      await one.kill()
      await expect.poll(valueAt(two, first), SLOW).toBe('changed\n')

      isOlder.set('one', false)
      await one.begin()
      await expect.poll(() => versionsAt(two), SLOW).toEqual([VERSION, VERSION])
      expect(await move(two, first, one)).toBe('changed')
      expect(await run(one, third, 'print(value)')).toBe('changed, too')
      expect(await run(one, second, 'print(value)')).toBe('of two')
    })

    /** What one version writes into the state of the cluster, the other one reads, and the other way round. */
    async function shareState(): Promise<void> {
      const namesAt = async (host: ServerProcess, kind: string): Promise<string[]> =>
        (await host.ok(`/v1/${kind}`, { key })).items.map(({ name }: Json) => name).sort()
      const hosts = { OF_OLDER: one, OF_NEWER: two }
      for (const [name, host] of Object.entries(hosts)) {
        await host.ok('/v1/secrets', { json: { name, value: 'its-value', domains: ['a.example'] }, key })
      }
      for (const host of [one, two])
        await expect.poll(() => namesAt(host, 'secrets'), SLOW).toEqual(['OF_NEWER', 'OF_OLDER'])
      for (const [name, host] of Object.entries(hosts)) {
        const { id } = await host.ok('/v1/jobs', { json: { name, code: 'item * 2', inputs: [1, 2, 3] }, key })
        const other = host === one ? two : one
        const job = async () => (await other.call(`/v1/jobs/${id}`, { key })).body
        await expect.poll(job, SLOW).toMatchObject({ state: 'finished', tasks: { succeeded: 3 } })
      }
    }

    it('an older version does not start with what a newer one has written, and says so', {
      timeout: 120_000,
    }, async () => {
      await two.stop()
      isOlder.set('two', true)
      await expect(two.begin()).rejects.toThrow(/database_newer.*Start that version, or use another --data/s)
      // Taking an upgrade back: the older version joins with another data directory, and sandboxes move to it.
      const three = await cluster.addHost({}, { toolsDir: join(directory, 'two'), program: () => older })
      await expect.poll(() => versionsAt(one), SLOW).toEqual([VERSION, OLDER])
      const id = await make(one, 'taken back')
      expect(await move(one, id, three)).toBe('taken back')

      const key = new ClusterKey(Buffer.from(await readFile(cluster.keyFile, 'utf8'), 'base64'))
      await using connection = await connectCluster({
        ...{ servers: [cluster.nats.url], replicas: 1, key, hostId: 'operator' },
      })
      await connection.keys.put('format', String(STATE_FORMAT + 1))
      await three.stop()
      const known = `in format ${STATE_FORMAT + 1}; this version knows formats up to ${STATE_FORMAT}`
      await expect(three.begin()).rejects.toThrow(known)
      await connection.keys.put('format', String(STATE_FORMAT))
      isOlder.set('two', false)
      await Promise.all([two.begin(), three.begin()])
      await expect.poll(() => versionsAt(one), SLOW).toHaveLength(3)
      expect(await run(one, id, 'print(value)')).toBe('taken back')
    })
  },
)
