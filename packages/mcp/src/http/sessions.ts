import { WebStandardStreamableHTTPServerTransport as Transport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'
import {
  type InitializeRequest,
  isInitializeRequest,
  LATEST_PROTOCOL_VERSION,
} from '@modelcontextprotocol/sdk/types.js'
import type { Dormouse } from 'dormouse'
import { isConversationName, newConversationName } from '../conversation-name.ts'
import { createMcpServer, type McpServer, type McpServerOptions } from '../create-mcp-server.ts'
import { SESSION_IDLE_MS, SESSION_SWEEP_MS, SESSIONS_MAX, SESSIONS_OF_ONE_KEY_MAX } from '../limits.ts'
import { EndedSessions } from './ended-sessions.ts'

export interface McpRequest {
  /** Without its body: that is in `body`, read within the bounds of the server. */
  readonly request: Request
  readonly body: unknown
  /** Who asks. A session belongs to one key. */
  readonly keyId: string
  /** Aborted when that key is revoked. */
  readonly revoked: AbortSignal
  /** A client with that key. */
  readonly connect: () => Dormouse
  /** The sandbox that the address names, if any. */
  readonly sandbox: string | undefined
}

export interface McpSessionsOptions extends Pick<McpServerOptions, 'onProblem' | 'onMistake'> {
  readonly limits?: Partial<SessionLimits>
}

export interface SessionLimits {
  readonly sessions: number
  readonly sessionsOfOneKey: number
  readonly idleMs: number
}

interface Session extends McpServer {
  readonly key: string
  readonly keyId: string
  readonly transport: Transport
  /** It can be asked. */
  readonly isReady: Promise<void>
  lastUsedMs: number
}

/**
 * The conversations over HTTP. What is held here is only a cache: all that a session is, is its id, which is also the name of its
 * sandbox. So one that was let go, or that was begun before the server was restarted, goes on with its next request.
 */
export class McpSessions {
  readonly #hearers: Pick<McpServerOptions, 'onProblem' | 'onMistake'>
  readonly #limits: SessionLimits
  /** The least recently used first. */
  readonly #sessions = new Map<string, Session>()
  readonly #ended = new EndedSessions()
  readonly #sweep: ReturnType<typeof setInterval>

  constructor({ limits, ...hearers }: McpSessionsOptions) {
    this.#hearers = hearers
    this.#limits = {
      sessions: SESSIONS_MAX,
      sessionsOfOneKey: SESSIONS_OF_ONE_KEY_MAX,
      idleMs: SESSION_IDLE_MS,
      ...limits,
    }
    this.#sweep = setInterval(() => this.#letIdleGo(), SESSION_SWEEP_MS)
    this.#sweep.unref()
  }

  get size(): number {
    return this.#sessions.size
  }

  async handle(asked: McpRequest): Promise<Response> {
    const { request, body } = asked
    const id = request.headers.get('mcp-session-id')
    if (id === null && !isInitializeRequest(body)) return refused(400, 'Mcp-Session-Id header is required')
    if (id !== null && (!isConversationName(id) || this.#ended.has(keyOf(asked.keyId, id)))) {
      return refused(404, 'Session not found')
    }
    const held = id === null ? undefined : this.#sessions.get(keyOf(asked.keyId, id))
    if (held === undefined && !this.#makeRoom(asked.keyId)) {
      return refused(429, 'Too many sessions are at work. End one, or wait for its calls to end.')
    }
    const session = held ?? this.#open(asked, id)
    await session.isReady
    session.lastUsedMs = performance.now()
    this.#sessions.delete(session.key)
    this.#sessions.set(session.key, session)
    const response = await session.transport.handleRequest(request, { parsedBody: body })
    if (request.method === 'DELETE' && response.ok) {
      this.#ended.add(session.key)
      this.#sessions.delete(session.key)
    }
    return response
  }

  /** Calls that are going on are interrupted. */
  async close(): Promise<void> {
    clearInterval(this.#sweep)
    const sessions = [...this.#sessions.values()]
    this.#sessions.clear()
    await Promise.all(sessions.map(({ server }) => server.close()))
    await Promise.all(sessions.map(({ callsEnded }) => callsEnded()))
  }

  /** Without an id: a new one. With one: one that was begun before. */
  #open({ request, keyId, revoked, connect, sandbox }: McpRequest, known: string | null): Session {
    const id = known ?? newConversationName()
    const transport = new Transport({ sessionIdGenerator: () => id })
    const made = createMcpServer({
      client: connect(),
      sandbox: sandbox ?? id,
      isNamed: sandbox !== undefined,
      ...this.#hearers,
      // Nobody gets an answer on it, so nothing else would end it.
      onCancelled: (requestId) => transport.closeSSEStream(requestId),
    })
    const isReady = join(made.server, transport).then(() => {
      if (known !== null) return begin(transport, request)
    })
    const session = {
      ...made,
      key: keyOf(keyId, id),
      ...{ keyId, transport, isReady, lastUsedMs: performance.now() },
    }
    this.#sessions.set(session.key, session)
    const letGo = () => this.#letGo(session)
    revoked.addEventListener('abort', letGo, { once: true })
    made.server.onclose = () => revoked.removeEventListener('abort', letGo)
    return session
  }

  /** Lets the one go that was not used for longest and does nothing. False: all are at work. */
  #makeRoom(keyId: string): boolean {
    const all = [...this.#sessions.values()]
    const mine = all.filter((session) => session.keyId === keyId)
    const isMineFull = mine.length >= this.#limits.sessionsOfOneKey
    if (!isMineFull && all.length < this.#limits.sessions) return true
    const oldest = (isMineFull ? mine : all).find(isAtRest)
    if (oldest !== undefined) this.#letGo(oldest)
    return oldest !== undefined
  }

  #letIdleGo(): void {
    const before = performance.now() - this.#limits.idleMs
    for (const session of this.#sessions.values()) {
      if (session.lastUsedMs < before && isAtRest(session)) this.#letGo(session)
    }
  }

  #letGo(session: Session): void {
    this.#sessions.delete(session.key)
    session.server.close().catch((error: unknown) => this.#hearers.onProblem?.(error))
  }
}

function isAtRest({ callsInProgress }: Session): boolean {
  return callsInProgress() === 0
}

function join(server: McpServer['server'], transport: Transport): Promise<void> {
  // Its optional callbacks are declared for compilers that are less exact.
  return server.connect(transport as Parameters<typeof server.connect>[0])
}

/** Names are unique per key, and so are sessions: the id of somebody else's leads nowhere. */
function keyOf(keyId: string, id: string): string {
  return `${keyId} ${id}`
}

/** Says for the client what it said when the session was new. It has no say in what it asked for then: nothing here depends on it. */
async function begin(transport: Transport, { url, headers }: Request): Promise<void> {
  const hello: InitializeRequest & { jsonrpc: '2.0'; id: string } = {
    jsonrpc: '2.0',
    id: 'begin',
    method: 'initialize',
    params: {
      protocolVersion: headers.get('mcp-protocol-version') ?? LATEST_PROTOCOL_VERSION,
      capabilities: {},
      clientInfo: { name: 'returned', version: '0' },
    },
  }
  const request = new Request(url, {
    method: 'POST',
    headers: { accept: 'application/json, text/event-stream', 'content-type': 'application/json' },
  })
  await (await transport.handleRequest(request, { parsedBody: hello })).text()
}

function refused(status: number, message: string): Response {
  const code = status === 404 ? -32001 : -32000
  return Response.json({ jsonrpc: '2.0', error: { code, message }, id: null }, { status })
}
