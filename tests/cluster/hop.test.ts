import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { highestUntilSteady } from '../highest-until-steady.ts'
import { EchoSocket, send, serveInside } from '../server/ports/harness.ts'
import type { ServerProcess } from '../server/server-process.ts'
import { SshClient } from '../ssh/ssh-client.ts'
import { TestCluster } from './test-cluster.ts'

const MIB = 1024 ** 2
const LARGE_MIB = 240
/** A host that kept what it passes on would grow by more than twice as much. */
const GROWTH_MAX_BYTES = 100 * MIB

let cluster: TestCluster
/** Has the sandbox. */
let one: ServerProcess
/** Passes everything on. */
let two: ServerProcess
let key: string
let id: string
let at: string

beforeAll(async () => {
  cluster = await TestCluster.start({ hosts: 2, idleTimeoutMs: 0 })
  ;[one, two] = cluster.hosts as [ServerProcess, ServerProcess]
  key = one.key
  id = await serveInside(one)
  at = `/v1/sandboxes/${id}/ports/8000`
  const isKnown = async () => (await two.call(`/v1/sandboxes/${id}`, { key })).status === 200
  await vi.waitUntil(isKnown, { timeout: 10_000 })
})

afterAll(() => cluster?.cleanUp())

const authorized = () => ({ authorization: `Bearer ${key}` })
const residentBytes = () =>
  Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${two.pid}/status`, 'latin1'))?.[1]) * 1024
/** Returns what has come when it contains `wanted`. */
async function readUntil(reader: ReadableStreamDefaultReader<Uint8Array>, wanted: string): Promise<string> {
  let text = ''
  while (!text.includes(wanted)) {
    const { value, done } = await reader.read()
    if (done) throw new Error(`the stream ended with ${text}`)
    text += Buffer.from(value).toString()
  }
  return text
}

describe('through another host', () => {
  test('a preview is reached by path and by host name, and its events come while it writes them', async () => {
    const byPath = await send(two, `${at}/a%2Fb?x=%20`, { headers: authorized() })
    expect([byPath.status, byPath.json.path, byPath.headers['dormouse-host']]).toEqual([
      ...[200, '/a%2Fb?x=%20', one.url],
    ])
    const host = `8000-${id}.localhost`
    const byName = await send(two, '/v1/sandboxes', { headers: { ...authorized(), host } })
    expect([byName.status, byName.json.path]).toEqual([200, '/v1/sandboxes'])
    const events = await two.fetch(`${at}/events`, { key })
    const reader = events.body?.getReader() as ReadableStreamDefaultReader<Uint8Array>
    // The program pauses between them.
    expect(await readUntil(reader, 'data: 0\n\n')).not.toContain('data: 4')
    await readUntil(reader, 'data: 4\n\n')
  })

  test('a WebSocket to a port carries messages of any size both ways, and its end', async () => {
    const socket = new EchoSocket(`${two.url}${at}/ws`, { headers: authorized() })
    await socket.opened
    expect(await socket.ask('hello')).toBe('hello')
    const large = 'x'.repeat(3_000_000)
    expect((await socket.ask(large)).length).toBe(large.length)
    socket.raw.close(4321)
    expect(await socket.ended).toBe(4321)
  })

  test('events of a run come while it runs', async () => {
    const code = `
import os, time
print('begun', flush=True)
while not os.path.exists('/root/go'): time.sleep(0.02)
print('over')`
    const headers = { accept: 'application/x-ndjson' }
    const run = await two.fetch(`/v1/sandboxes/${id}/run`, { json: { code }, key, headers })
    const reader = run.body?.getReader() as ReadableStreamDefaultReader<Uint8Array>
    await readUntil(reader, 'begun')
    await two.ok(`/v1/sandboxes/${id}/files?path=/root/go`, { method: 'PUT', body: 'go', key })
    await readUntil(reader, 'over')
  })

  test(`${LARGE_MIB} MiB go up and come down, without the host in between keeping them`, async () => {
    const path = `/v1/sandboxes/${id}/files?path=/root/large`
    const piece = Buffer.alloc(MIB, 'some bytes; ')
    const digest = createHash('sha256')
    for (let count = 0; count < LARGE_MIB; count += 1) digest.update(piece)
    const sha256 = digest.digest('hex')
    await two.ok(path, { method: 'PUT', body: piece, key })
    const before = residentBytes()
    let highest = before
    const watching = setInterval(() => {
      highest = Math.max(highest, residentBytes())
    }, 20)
    const pieces = async function* () {
      for (let count = 0; count < LARGE_MIB; count += 1) yield piece
    }
    const body = { method: 'PUT', body: pieces(), duplex: 'half', key } as unknown as RequestInit
    await two.ok(path, body)
    expect(
      await one.run(id, 'import subprocess; print(subprocess.getoutput("sha256sum < /root/large"))'),
    ).toBe(`${sha256}  -\n`)
    const response = await two.fetch(path, { key })
    // A reader that pauses: what it does not read waits in the sandbox.
    highest = Math.max(highest, await highestUntilSteady(residentBytes))
    const received = createHash('sha256')
    for await (const part of response.body as unknown as AsyncIterable<Uint8Array>) received.update(part)
    clearInterval(watching)
    expect(received.digest('hex')).toBe(sha256)
    expect(highest - before).toBeLessThan(GROWTH_MAX_BYTES)
  })

  test('sftp and scp copy files there and back', async () => {
    const client = await SshClient.open(two)
    try {
      const identity = await client.addKey('hop', { key })
      const file = join(client.dir, 'data.bin')
      await writeFile(file, Buffer.alloc(8 * MIB, 'some bytes; '))
      const to = `${id}@127.0.0.1`
      const orders = `put ${file} one\nrename one two\nget two ${file}.sftp\nbye\n`
      const sftp = await client.run('sftp', [...client.options(identity), '-b', '-', to], orders)
      expect(sftp.code, sftp.stderr).toBe(0)
      const scp = await client.run('scp', [...client.options(identity), `${to}:two`, `${file}.scp`])
      expect(scp.code, scp.stderr).toBe(0)
      for (const copy of [`${file}.sftp`, `${file}.scp`])
        expect((await readFile(copy)).equals(await readFile(file))).toBe(true)
      // Not the host in between has them.
      expect(await one.run(id, 'import os; print(os.path.getsize("/root/two"))')).toBe(`${8 * MIB}\n`)
    } finally {
      await client.close()
    }
  })

  test('a key opens only what it opens on the host of the sandbox', async () => {
    const { key: other } = await one.ok('/v1/keys', { json: { name: 'other', scopes: ['run'] }, key })
    await expect.poll(async () => (await two.call('/v1/sandboxes', { key: other })).status).toBe(200)
    const run = { json: { code: '1' } }
    const forged = { authorization: `Dormouse-Hop ${key}.${Date.now()}.c2lnbmVk` }
    const calls: [path: string, options: object][] = [
      [`/v1/sandboxes/${id}/run`, { ...run, key: 'dm_wrong' }],
      [`/v1/sandboxes/${id}/run`, { ...run, key: other }],
      [`/v1/sandboxes/${id}/run`, { ...run, headers: forged }],
      [`/v1/sandboxes/${id}/files?path=/root/go`, { key: other }],
      [`${at}/`, { key: 'dm_wrong' }],
      [`${at}/`, { key: other }],
    ]
    for (const [path, options] of calls) {
      const [direct, passed] = [await one.call(path, options), await two.call(path, options)]
      expect([401, 403, 404], path).toContain(direct.status)
      expect([passed.status, passed.body.error.code]).toEqual([direct.status, direct.body.error.code])
    }
    const socket = (headers: object) => new EchoSocket(`${two.url}${at}/ws`, { headers }).ended
    expect(await socket({})).toBe(401)
    expect(await socket({ authorization: `Bearer ${other}` })).toBe(
      await new EchoSocket(`${one.url}${at}/ws`, { headers: { authorization: `Bearer ${other}` } }).ended,
    )
  })
})
