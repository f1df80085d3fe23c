import { existsSync } from 'node:fs'
import { link, mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { BOOT_TIMEOUT_MS, microvmMissing } from '../engine-microvm/microvm-factory.ts'
import type { ServerProcess } from '../server/server-process.ts'
import { testDataDir } from '../test-data-dir.ts'
import { LEASE_MS, TestCluster } from './test-cluster.ts'

const missing = await microvmMissing()
vi.setConfig({ testTimeout: BOOT_TIMEOUT_MS, hookTimeout: BOOT_TIMEOUT_MS })

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Json = any

const MACHINE = { isolation: 'microvm', limits: { memoryBytes: 1024 ** 3 } }
const SLOW = { timeout: 60 * LEASE_MS, interval: 300 }

// Skip: QEMU and the kernel of guests are installed only when asked for.
describe.skipIf(missing !== undefined)(
  `virtual machines of a cluster${missing ? `: ${missing}` : ''}`,
  () => {
    let directory: string
    let cluster: TestCluster
    /** Has booted the template. */
    let one: ServerProcess
    /** Has the guest's kernel, the template and its root disk. It has built a disk of tools, and booted nothing. */
    let two: ServerProcess
    /** Has no virtual machines. */
    let three: ServerProcess
    let key: string

    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), 'dormouse-tools-'))
      cluster = await TestCluster.start({ hosts: 1 })
      await cluster.addHost({}, { toolsDir: await toolsLike('two', ['microvm/kernel']) })
      await cluster.addHost({}, { toolsDir: await toolsLike('three') })
      ;[one, two, three] = cluster.hosts as [ServerProcess, ServerProcess, ServerProcess]
      key = one.key
      await vi.waitFor(
        async () => expect((await one.call('/v1/nodes', { key })).body.items).toHaveLength(3),
        SLOW,
      )
    })
    afterAll(async () => {
      await cluster?.cleanUp()
      await rm(directory, { recursive: true, force: true })
    })

    /** A directory with the templates of this host and disks of its own. */
    async function toolsLike(name: string, more: readonly string[] = []): Promise<string> {
      const tools = join(directory, name)
      await mkdir(join(tools, 'microvm'), { recursive: true })
      for (const path of ['templates', 'template-layers', 'tools', ...more])
        await symlink(join(testDataDir, path), join(tools, path))
      return tools
    }

    /** They have close to a gigabyte, and one disk that travels is enough for a test. */
    async function shareRootDisks(name: string): Promise<void> {
      const [from, to] = [testDataDir, join(directory, name)].map((path) => join(path, 'microvm/disks'))
      for (const disk of await readdir(String(from))) {
        const paths = [join(String(from), disk), join(String(to), disk)] as const
        // Temporary files may be on another file system.
        if (disk.startsWith('root-')) await link(...paths).catch(() => symlink(...paths))
      }
    }

    const run = async (host: ServerProcess, id: string, code: string): Promise<string> => {
      const { stdout, stderr } = await host.ok(`/v1/sandboxes/${id}/run`, { json: { code }, key })
      return `${stdout}${stderr}`.trim()
    }
    const create = async (host: ServerProcess, change: object = {}): Promise<string> =>
      (await host.ok('/v1/sandboxes', { json: { ...MACHINE, ...change }, key })).id
    const remove = (id: string) => one.call(`/v1/sandboxes/${id}`, { method: 'DELETE', key })
    const placeOf = async (id: string) =>
      (await three.fetch(`/v1/sandboxes/${id}`, { key })).headers.get('dormouse-host') ?? three.url
    const nodeOf = async (host: ServerProcess): Promise<string> =>
      (await host.ok('/v1/nodes', { key })).items.find(({ isSelf }: Json) => isSelf).id
    const moveTo = async (id: string, host: ServerProcess) =>
      one.call(`/v1/sandboxes/${id}/move`, { json: { node: await nodeOf(host) }, key })

    /** Snapshots whose memory is still on its way. */
    async function arrivingOf(host: ServerProcess): Promise<string[]> {
      const snapshots = join(host.factory.stateDir, 'microvm', 'snapshots')
      const names = await readdir(snapshots)
      return names.filter((name) => existsSync(join(snapshots, name, 'arriving')))
    }

    /** Whether a machine has been given to a sandbox before all of its memory is there. */
    async function isAwakeEarly(host: ServerProcess): Promise<boolean> {
      const burrows = join(host.factory.stateDir, 'microvm', 'burrows')
      const records = (await readdir(burrows)).map((name) => join(burrows, name, 'burrow.json'))
      return records.some((path) => existsSync(path)) && (await arrivingOf(host)).length > 0
    }

    it('one moves with memory, files and disks to a host that never had them, and back', async () => {
      const id = await create(one)
      await run(one, id, 'import os; x = 41; n = open("/root/kept", "w").write("of one")')
      const kept = await one.ok(`/v1/sandboxes/${id}/snapshots`, { json: { name: 'kept' }, key })
      await shareRootDisks('two')
      expect((await moveTo(id, two)).status).toBe(200)
      // Its host is killed while the disks arrive, and begins again.
      const arrived = join(two.factory.stateDir, 'microvm', 'arrived')
      const interrupted = run(three, id, 'print(x)').catch(() => 'interrupted')
      await expect.poll(() => readdir(arrived), { ...SLOW, interval: 5 }).not.toEqual([])
      await two.kill()
      expect(await interrupted).toBe('interrupted')
      await two.begin()
      // It wakes before its memory is there. Its host is killed then, too, and fetches the rest when it is back.
      const woken = run(three, id, 'print(x)').catch(() => 'interrupted')
      await expect.poll(() => isAwakeEarly(two), { ...SLOW, interval: 5 }).toBe(true)
      await two.kill()
      await woken
      expect(await arrivingOf(two)).toHaveLength(1)
      await two.begin()
      const read =
        'print(x + 1, open("/root/kept").read(), os.uname().release, len(os.listdir("/usr/bin")) > 100)'
      await expect.poll(() => run(three, id, read).catch(String), SLOW).toMatch(/^42 of one .*cloud.* True$/)
      expect(await placeOf(id)).toBe(two.url)
      await expect.poll(() => arrivingOf(two), SLOW).toEqual([])
      await run(two, id, 'x += 100; n = open("/root/more", "w").write("of two")')
      expect((await moveTo(id, one)).status).toBe(200)
      // The third host hears of the move a moment later.
      const both = 'print(x, open("/root/kept").read(), open("/root/more").read())'
      await expect.poll(() => run(three, id, both).catch(String), SLOW).toBe('141 of one of two')
      expect(await placeOf(id)).toBe(one.url)
      // What came with it is gone there when no snapshot needs it any more.
      await expect.poll(() => readdir(arrived), SLOW).toEqual([])
      await one.ok(`/v1/sandboxes/${id}/rollback`, { json: { snapshotId: kept.id }, key })
      expect(await run(one, id, 'print(x)')).toBe('41')
      await remove(id)
      await one.call(`/v1/snapshots/${kept.id}`, { method: 'DELETE', key })
    })

    it('a host without them neither gets one nor makes one, and the error says which hosts could', async () => {
      const cordon = async (cordoned: boolean) =>
        two.ok(`/v1/nodes/${await nodeOf(two)}/cordon`, { json: { cordoned }, key })
      await cordon(true)
      const id = await create(three)
      expect(await placeOf(id)).toBe(one.url)
      await cordon(false)
      expect(await moveTo(id, three)).toMatchObject({
        status: 409,
        body: {
          error: {
            ...{ code: 'conflict', message: expect.stringContaining('it has no virtual machines') },
            details: { nodes: [await nodeOf(two)] },
          },
        },
      })
      await remove(id)
    })

    it('one of a lost host continues where it slept, on the host that can run it', async () => {
      const id = await create(one)
      await run(one, id, 'x = "before the loss"')
      const json = { tier: 'stored', durability: 'cluster' }
      expect(await one.ok(`/v1/sandboxes/${id}/standby`, { json, key })).toMatchObject({ replicated: true })
      await one.kill()
      const value = async () =>
        (await three.call(`/v1/sandboxes/${id}/run`, { json: { code: 'print(x)' }, key })).body.stdout
      await expect.poll(value, SLOW).toBe('before the loss\n')
      expect(await placeOf(id)).toBe(two.url)
      await three.call(`/v1/sandboxes/${id}`, { method: 'DELETE', key })
    })
  },
)
