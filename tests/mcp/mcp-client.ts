import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import type { ServerProcess } from '../server/server-process.ts'

const launcher = fileURLToPath(new URL('../../dormouse', import.meta.url))

// biome-ignore lint/suspicious/noExplicitAny: tests compare answers, they do not build on them
type Json = any

export interface Answer extends CallToolResult {
  readonly structuredContent?: Json
}

/** The official client, over stdio or HTTP. */
export class McpClient implements AsyncDisposable {
  readonly client = new Client({ name: 'test', version: '1' })
  #http: StreamableHTTPClientTransport | undefined
  #stdio: StdioClientTransport | undefined

  static async overStdio(
    server: ServerProcess,
    sandbox?: string,
    flags: readonly string[] = [],
  ): Promise<McpClient> {
    const mcp = new McpClient()
    const args = [
      'mcp',
      '--url',
      server.url,
      ...(sandbox === undefined ? [] : ['--sandbox', sandbox]),
      ...flags,
    ]
    const env = { PATH: process.env['PATH'] ?? '', DORMOUSE_API_KEY: server.key }
    mcp.#stdio = new StdioClientTransport({ command: launcher, args, env })
    await mcp.client.connect(mcp.#stdio)
    return mcp
  }

  static async overHttp(
    server: ServerProcess,
    { sandbox, key = server.key, sessionId }: { sandbox?: string; key?: string; sessionId?: string } = {},
  ): Promise<McpClient> {
    const mcp = new McpClient()
    const url = new URL(`/mcp${sandbox === undefined ? '' : `?sandbox=${sandbox}`}`, server.url)
    const transport = new StreamableHTTPClientTransport(url, {
      requestInit: { headers: { authorization: `Bearer ${key}` } },
      ...(sessionId !== undefined && { sessionId }),
    })
    mcp.#http = transport
    await mcp.client.connect(transport as Parameters<Client['connect']>[0])
    return mcp
  }

  /** The pid of the process over stdio. */
  get pid(): number {
    return this.#stdio?.pid ?? -1
  }

  get sessionId(): string {
    return this.#http?.sessionId ?? ''
  }

  async call(
    name: string,
    given: Record<string, unknown> = {},
    options: Parameters<Client['callTool']>[2] = {},
  ): Promise<Answer> {
    return (await this.client.callTool({ name, arguments: given }, undefined, options)) as Answer
  }

  /** The text that the model reads. */
  async text(name: string, given: Record<string, unknown> = {}): Promise<string> {
    return textOf(await this.call(name, given))
  }

  /** Ends the session, as a client does when it is closed. */
  async end(): Promise<void> {
    await this.#http?.terminateSession()
    await this.client.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.close()
  }
}

export function textOf({ content }: CallToolResult): string {
  return content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('\n')
}
