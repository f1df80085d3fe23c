import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import {
  backUpCluster,
  ClusterKey,
  connectCluster,
  createJoinToken,
  Depot,
  JetStreamStore,
  restoreCluster,
} from '@dormouse/cluster'
import { clusterMaintenance, loadConfig } from '@dormouse/server'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { NatsServer } from './nats-server.ts'

const keyBytes = randomBytes(32)
const key = new ClusterKey(keyBytes)
let directory: string
let tiny: string
let nats: NatsServer

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'dormouse-full-'))
  tiny = await mkdtemp(join(tmpdir(), 'dormouse-tiny-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', tiny])
  nats = await NatsServer.start()
  await using connection = await connectCluster({ servers: [nats.url], replicas: 1, key, hostId: 'operator' })
  const store = await JetStreamStore.open({ ...connection, replicas: 1 })
  await using depot = new Depot({ store, key })
  await depot.storeStream(Readable.from([randomBytes(8_000_000)]))
})
afterAll(async () => {
  execFileSync('umount', ['--lazy', tiny])
  await nats?.cleanUp()
  for (const path of [directory, tiny]) await rm(path, { recursive: true, force: true })
})

const connect = (to: NatsServer) =>
  connectCluster({ servers: [to.url], replicas: 1, key, hostId: 'operator' })
const fill = () => writeFile(join(tiny, 'ballast'), Buffer.alloc(2_000_000)).catch(() => {})

it('a backup that meets a full disk leaves nothing, and one that succeeds replaces no file', async () => {
  await using connection = await connect(nats)
  await expect(backUpCluster(connection, join(tiny, 'backup'))).rejects.toMatchObject({ code: 'no_space' })
  expect(await readdir(tiny)).toEqual([])
  const path = join(directory, 'backup')
  await backUpCluster(connection, path)
  const before = await readFile(path)
  await expect(backUpCluster(connection, path)).rejects.toThrow('EEXIST')
  expect(before.equals(await readFile(path))).toBe(true)
  expect(await readdir(directory)).toEqual(['backup'])
})

it('a backup that was cut off at the end of a record is refused before it changes anything', async () => {
  const path = join(directory, 'backup')
  const whole = await readFile(path)
  const cut = join(directory, 'cut')
  // The last line says how many records there are.
  await writeFile(cut, whole.subarray(0, whole.lastIndexOf('{"end"')))
  const empty = await NatsServer.start()
  try {
    await using connection = await connect(empty)
    const store = await JetStreamStore.open({ ...connection, replicas: 1 })
    await expect(restoreCluster(connection, cut)).rejects.toMatchObject({ code: 'invalid_argument' })
    const found: unknown[] = []
    for await (const object of store.list()) found.push(object)
    expect(found).toEqual([])
  } finally {
    await empty.cleanUp()
  }
})

it('NATS servers without space refuse a backup, and the error says what to do', async () => {
  let place = ''
  const small = await NatsServer.start({
    prepare: async (its) => {
      place = its
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', place])
    },
  })
  try {
    await using connection = await connect(small)
    await JetStreamStore.open({ ...connection, replicas: 1 })
    await expect(restoreCluster(connection, join(directory, 'backup'))).rejects.toMatchObject({
      code: 'cluster_unavailable',
      hint: expect.stringContaining('restore it again'),
    })
  } finally {
    await small.kill()
    execFileSync('umount', ['--lazy', place])
    await small.cleanUp()
  }
})

it('a join on a full disk does not use the token, and leaves no key', async () => {
  await using connection = await connect(nats)
  const token = await createJoinToken(connection, { clusterKey: keyBytes, servers: [nats.url], replicas: 1 })
  await fill()
  const config = loadConfig({ env: {}, flags: {}, dataDir: tiny })
  await expect(clusterMaintenance.join(config, token)).rejects.toMatchObject({ code: 'no_space' })
  expect(await readdir(tiny)).toEqual(['ballast'])
  await rm(join(tiny, 'ballast'))
  expect(await clusterMaintenance.join(config, token)).toEqual([nats.url])
  expect(Buffer.from(await readFile(join(tiny, 'cluster.key'), 'latin1'), 'base64').equals(keyBytes)).toBe(
    true,
  )
  await expect(clusterMaintenance.join(config, token)).rejects.toMatchObject({ code: 'conflict' })
})
