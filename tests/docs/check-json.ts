import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseTemplateDescription } from '@dormouse/engine-linux/setup'
import { loadConfig } from '@dormouse/server'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { expect } from 'vitest'
import { z } from 'zod'
import type { Block } from './read-blocks.ts'
import type { Place } from './run-program.ts'

const mcpServer = z.union([
  z.strictObject({
    command: z.string(),
    args: z.array(z.string()),
    env: z.record(z.string(), z.string()).optional(),
  }),
  z.strictObject({ type: z.literal('http'), url: z.string(), headers: z.record(z.string(), z.string()) }),
])
const mcpConfig = z.union([
  z.strictObject({ mcpServers: z.record(z.string(), mcpServer) }).transform((config) => config.mcpServers),
  z.strictObject({ servers: z.record(z.string(), mcpServer) }).transform((config) => config.servers),
])

/**
 * JSON has to be JSON, and what is meant for a program has to be taken by that program. What it is shows in its
 * fields.
 */
export async function checkJson({ code }: Block, place: Place): Promise<void> {
  const shown: unknown = JSON.parse(code)
  const has = (field: string) => typeof shown === 'object' && shown !== null && field in shown
  if (has('mcpServers') || has('servers')) await checkMcp(code, place)
  else if (has('suite')) parseTemplateDescription(shown)
  else if (has('idleTimeoutMs')) await checkConfiguration(code, place)
  // The one shape left: an answer of the server.
  else expect(shown).toHaveProperty('error.code')
}

async function checkConfiguration(code: string, { cwd }: Place): Promise<void> {
  await writeFile(join(cwd, 'config.json'), code)
  loadConfig({ env: {}, dataDir: cwd })
}

/**
 * Each server of it is connected to, as the reader's client does it, and asked for something that only a real one can
 * answer.
 */
async function checkMcp(code: string, place: Place): Promise<void> {
  const { PATH = '', DORMOUSE_URL = '', DORMOUSE_API_KEY = '' } = place.env
  const filledIn = code
    .replaceAll('http://127.0.0.1:7070', DORMOUSE_URL)
    .replaceAll('dm_…', DORMOUSE_API_KEY)
    .replaceAll('/path/to/dormouse', join(place.cwd, '.bin/dormouse'))
  for (const server of Object.values(mcpConfig.parse(JSON.parse(filledIn)))) {
    const client = new Client({ name: 'docs', version: '1' })
    const transport =
      'command' in server
        ? // A client on a desktop cannot read what the server keeps for root, so nothing is found but what is in the configuration.
          new StdioClientTransport({ ...server, env: { PATH, DORMOUSE_DATA: place.cwd, ...server.env } })
        : new StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers: server.headers } })
    try {
      await client.connect(transport as Parameters<Client['connect']>[0])
      const answer = await client.callTool({ name: 'list_sandboxes', arguments: {} })
      expect(answer.isError ?? false, JSON.stringify(answer.content)).toBe(false)
    } finally {
      await client.close()
    }
  }
}
