import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { copyFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { Dormouse } from 'dormouse'
import { rolldown } from 'rolldown'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { testNode } from '../languages/put-node.ts'
import { ServerProcess } from '../server/server-process.ts'

const dir = mkdtempSync(join(tmpdir(), 'dormouse-mcp-'))
const DOCKERFILE = 'FROM template:python\nCOPY . /app/\nCMD ["/app/node", "/app/server.mjs"]\n'
const replicas = { max: 3, concurrency: 2, idleMs: 60_000 }

let server: ServerProcess
const clients: Client[] = []

beforeAll(async () => {
  server = await ServerProcess.start({ idleTimeoutMs: 60_000 })
  await copyFile(await testNode(), join(dir, 'node'))
  writeFileSync(join(dir, 'Dockerfile'), DOCKERFILE)
  const bundle = await rolldown({ input: join(import.meta.dirname, 'mcp-server.mjs'), platform: 'node' })
  await bundle.write({ file: join(dir, 'server.mjs'), format: 'es', codeSplitting: false })
  await bundle.close()
})
afterAll(async () => {
  for (const client of clients) await client.close().catch(() => {})
  await server?.cleanUp()
  rmSync(dir, { recursive: true, force: true })
})

const deploy = (env: Record<string, string>) =>
  new Dormouse({ url: server.url, apiKey: server.key }).services.deploy(
    'tools',
    { port: 3000, env, replicas },
    { dir },
  )

async function connect(): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' })
  const transport = new StreamableHTTPClientTransport(new URL('/v1/services/tools/http/mcp', server.url), {
    requestInit: { headers: { authorization: `Bearer ${server.key}` } },
  })
  await client.connect(transport as Parameters<Client['connect']>[0])
  clients.push(client)
  return client
}

async function count(client: Client): Promise<{ calls: number; host: string }> {
  const { content } = await client.callTool({ name: 'count', arguments: {} })
  return JSON.parse((content as { text: string }[])[0]?.text ?? '')
}

/** Streams of clients are requests under way: enough clients need more than one replica. */
async function connectUntilSpread(): Promise<Map<Client, string>> {
  const hosts = new Map<Client, string>()
  const deadline = Date.now() + 60_000
  while (new Set(hosts.values()).size < 2) {
    if (Date.now() > deadline) throw new Error('all sessions are on one replica')
    const client = await connect()
    hosts.set(client, (await count(client)).host)
    await sleep(100)
  }
  return hosts
}

test('an MCP server is a service, and its sessions stay with their replicas', async () => {
  await deploy({ VERSION: '1' })
  const hosts = await connectUntilSpread()
  const every = async (calls: number) => {
    const counted = await Promise.all([...hosts.keys()].map(count))
    expect(counted).toEqual([...hosts.values()].map((host) => ({ calls, host })))
  }
  for (const calls of [2, 3, 4]) await every(calls)

  for (const { sandboxId } of (await server.ok('/v1/services/tools')).replicas.items)
    await server.ok(`/v1/sandboxes/${sandboxId}/standby`, { json: { tier: 'stored' } })
  await every(5)

  // Sessions of the version before continue where they are; new ones begin with the new version.
  await deploy({ VERSION: '2' })
  const fresh = await connect()
  expect(fresh.getServerVersion()).toMatchObject({ version: '2' })
  await every(6)

  // A session whose replica is gone is unknown, and the client begins another one.
  const { host: sandboxId } = await count(fresh)
  await server.call(`/v1/sandboxes/${sandboxId}`, { method: 'DELETE' })
  await expect(count(fresh)).rejects.toMatchObject({ code: 404 })
  expect(await count(await connect())).toMatchObject({ calls: 1 })
}, 120_000)
