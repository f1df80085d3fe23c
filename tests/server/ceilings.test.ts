import { readFile } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { findHierarchies } from '../../packages/engine-linux/src/cgroup/find-hierarchies.ts'
import { ServerProcess } from './server-process.ts'

const MIB = 1024 ** 2
const GIB = 1024 ** 3
const HOST_MEMORY = 3 * GIB

let server: ServerProcess
beforeAll(async () => {
  server = await ServerProcess.start({
    ceilings: { memoryBytes: 2 * GIB, cpus: 1.5, pids: 600, diskBytes: 11 * GIB, files: 2_000_000 },
    defaults: { memoryBytes: 3 * GIB, cpus: 1 },
    minFreeMemoryBytes: HOST_MEMORY,
  })
})
afterEach(() => server.clear())
afterAll(() => server?.cleanUp())

const refusal = (ceiling: string) => ({
  status: 429,
  body: { error: { code: 'limit_reached', details: { ceiling } } },
})
const TOO_MUCH = [
  ['memoryBytes', 1024 ** 4],
  ['cpus', 1024],
  ['pids', 32_768],
  ['diskBytes', 1024 ** 5],
  ['files', 1_000_000_000],
] as const

describe('ceilings of the server', () => {
  test.each(TOO_MUCH)(
    'refuse a sandbox that asks for too much of %s, and name the ceiling',
    async (name, amount) => {
      const limits = { [name]: amount }
      expect(await server.call('/v1/sandboxes', { json: { limits } })).toMatchObject(refusal(name))
      expect(await server.call('/v1/run', { json: { code: '1', limits } })).toMatchObject(refusal(name))
      expect((await server.ok('/v1/sandboxes')).items).toEqual([])
    },
  )

  test('hold for changes, too, and for volumes', async () => {
    const { id, limits } = await server.ok('/v1/sandboxes', { json: { limits: { cpus: 1.5 } } })
    // The default is above the ceiling.
    expect(limits).toEqual({
      ...{ memoryBytes: 2 * GIB, cpus: 1.5, pids: 512 },
      ...{ diskBytes: 10 * GIB, files: 1_000_000 },
    })
    for (const [name, amount] of TOO_MUCH) {
      const json = { limits: { [name]: amount } }
      expect(await server.call(`/v1/sandboxes/${id}`, { method: 'PATCH', json })).toMatchObject(refusal(name))
    }
    const large = { name: 'large', sizeBytes: 12 * GIB }
    expect(await server.call('/v1/volumes', { json: large })).toMatchObject(refusal('diskBytes'))
    await server.ok('/v1/volumes', { json: { name: 'small' } })
    const json = { sizeBytes: 12 * GIB }
    expect(await server.call('/v1/volumes/small', { method: 'PATCH', json })).toMatchObject(
      refusal('diskBytes'),
    )
  })
})

describe('ceilings of a key', () => {
  const quotas = {
    ...{ sandboxMemoryBytes: 256 * MIB, sandboxCpus: 0.5, sandboxPids: 100 },
    ...{ sandboxDiskBytes: GIB, sandboxFiles: 5_000 },
  }

  test('refuse what is above them, are the limits of sandboxes that ask for none, and can be taken away', async () => {
    const { id: keyId, key, ...view } = await server.ok('/v1/keys', { json: { name: 'small', quotas } })
    expect(view.quotas).toEqual(quotas)
    const { id, limits } = await server.ok('/v1/sandboxes', { key, json: {} })
    expect(limits).toEqual({ memoryBytes: 256 * MIB, cpus: 0.5, pids: 100, diskBytes: GIB, files: 5_000 })
    const names = { memoryBytes: GIB, cpus: 1, pids: 101, diskBytes: 2 * GIB, files: 6_000 }
    for (const [name, amount] of Object.entries(names)) {
      const ceiling = `sandbox${name[0]?.toUpperCase()}${name.slice(1)}`
      const json = { limits: { [name]: amount } }
      expect(await server.call('/v1/sandboxes', { key, json })).toMatchObject(refusal(ceiling))
      expect(await server.call(`/v1/sandboxes/${id}`, { key, method: 'PATCH', json })).toMatchObject(
        refusal(ceiling),
      )
    }
    expect(await server.ok('/v1/volumes', { key, json: { name: 'v' } })).toMatchObject({ sizeBytes: GIB })
    // An existing sandbox keeps what it has, and may be changed in other ways.
    await server.ok(`/v1/keys/${keyId}`, { method: 'PATCH', json: { quotas: { sandboxPids: 50 } } })
    await server.ok(`/v1/sandboxes/${id}`, {
      key,
      method: 'PATCH',
      json: { limits: { pids: 80, cpus: 0.25 } },
    })
    await server.ok(`/v1/keys/${keyId}`, { method: 'PATCH', json: { quotas: { sandboxCpus: null } } })
    await server.ok(`/v1/sandboxes/${id}`, { key, method: 'PATCH', json: { limits: { cpus: 1 } } })
  })
})

test('all sandboxes together leave the host its memory, CPU and processes', async () => {
  await server.ok('/v1/sandboxes', { json: {} })
  const { v1, v2 } = await findHierarchies()
  const read = async (controller: 'memory' | 'cpu' | 'pids', v1File: string, v2File: string, up = '') => {
    const mount = v1.get(controller)
    const directory = join(mount ?? v2?.path ?? '', server.factory.layout.cgroupName, up)
    return Number(await readFile(join(directory, mount === undefined ? v2File : v1File), 'utf8'))
  }
  const memory = await read('memory', 'memory.limit_in_bytes', 'memory.max')
  expect(Math.abs(memory - (totalmem() - HOST_MEMORY))).toBeLessThan(MIB)
  const pidMax = Number(await readFile('/proc/sys/kernel/pid_max', 'utf8'))
  expect(await read('pids', 'pids.max', 'pids.max')).toBeLessThanOrEqual(pidMax * (7 / 8))
  expect(await read('cpu', 'cpu.shares', 'cpu.weight', '..')).toBe(v1.has('cpu') ? 512 : 50)
})
