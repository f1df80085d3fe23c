// An MCP server as people deploy it: the official SDK over streamable HTTP, with the state of each session in memory.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { hostname } from 'node:os'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'

const sessions = new Map()

async function begin() {
  let calls = 0
  const server = new McpServer({ name: 'counter', version: process.env.VERSION ?? '0' })
  server.registerTool('count', { description: 'Counts the calls of this session.' }, async () => {
    calls += 1
    return { content: [{ type: 'text', text: JSON.stringify({ calls, host: hostname() }) }] }
  })
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, transport),
  })
  await server.connect(transport)
  return transport
}

createServer(async (request, response) => {
  const id = request.headers['mcp-session-id']
  const known = id === undefined ? await begin() : sessions.get(id)
  if (known === undefined) response.writeHead(404).end()
  else await known.handleRequest(request, response)
}).listen(Number(process.env.PORT))
