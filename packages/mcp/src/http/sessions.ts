import { onAbort } from '@dormouse/async'
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
  /** Without its body, which is in `body`: the server limits its size. */
  readonly request: Request
  readonly body: unknown
  /** The API key of the request. A session belongs to one key. */
  readonly keyId: string
  /** Aborts when that key is revoked. */
  readonly revoked: AbortSignal
  /** Makes a client with that key. */
  readonly connect: () => Dormouse
  /** The sandbox that the URL names, if any. */
  readonly sandbox: string | undefined
}

export interface McpSessionsOptions extends Pick<McpServerOptions, 'onInternalError' | 'onClientError'> {
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
  /** Resolves when it can take requests. */
  readonly isReady: Promise<void>
  lastUsedMs: number
}

/**
 * Conversations over HTTP. This is only a cache: a session is its id, which is also the name of its sandbox. A session
 * that was evicted, or that began before the server restarted, continues with its next request.
 */
export class McpSessions {
  readonly #callbacks: Pick<McpServerOptions, 'onInternalError' | 'onClientError'>
  readonly #limits: SessionLimits
  /** Least recently used first. */
  readonly #sessions = new Map<string, Session>()
  readonly #ended = new EndedSessions()
  readonly #sweep: ReturnType<typeof setInterval>

  constructor({ limits, ...callbacks }: McpSessionsOptions) {
    this.#callbacks = callbacks
    this.#limits = {
      sessions: SESSIONS_MAX,
      sessionsOfOneKey: SESSIONS_OF_ONE_KEY_MAX,
      idleMs: SESSION_IDLE_MS,
      ...limits,
    }
    this.#sweep = setInterval(() => this.#evictIdle(), SESSION_SWEEP_MS)
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
      return refused(429, 'Too many sessions have calls in progress. End one, or wait for its calls to end.')
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

  /** Ends calls in progress. The runs that they wait for continue. */
  async close(): Promise<void> {
    clearInterval(this.#sweep)
    const sessions = [...this.#sessions.values()]
    this.#sessions.clear()
    await Promise.all(sessions.map(({ server }) => server.close()))
    await Promise.all(sessions.map(({ callsEnded }) => callsEnded()))
  }

  /** Opens a new session, or with an id one that began before. */
  #open({ request, keyId, revoked, connect, sandbox }: McpRequest, known: string | null): Session {
    const id = known ?? newConversationName()
    const transport = new Transport({ sessionIdGenerator: () => id })
    const made = createMcpServer({
      client: connect(),
      sandbox: sandbox ?? id,
      isNamed: sandbox !== undefined,
      ...this.#callbacks,
      // A cancelled call gets no answer, so nothing else would close its stream.
      onCancelled: (requestId) => transport.closeSSEStream(requestId),
    })
    const isReady = connectTo(made, transport).then(() => {
      if (known !== null) return initialize(transport, request)
    })
    const session = {
      ...made,
      key: keyOf(keyId, id),
      ...{ keyId, transport, isReady, lastUsedMs: performance.now() },
    }
    this.#sessions.set(session.key, session)
    const listener = onAbort(revoked, () => this.#evict(session))
    made.server.onclose = () => listener[Symbol.dispose]()
    return session
  }

  /** Evicts the least recently used session without calls. False if all sessions have calls in progress. */
  #makeRoom(keyId: string): boolean {
    const all = [...this.#sessions.values()]
    const mine = all.filter((session) => session.keyId === keyId)
    const isMineFull = mine.length >= this.#limits.sessionsOfOneKey
    if (!isMineFull && all.length < this.#limits.sessions) return true
    const oldest = (isMineFull ? mine : all).find(hasNoCalls)
    if (oldest !== undefined) this.#evict(oldest)
    return oldest !== undefined
  }

  #evictIdle(): void {
    const before = performance.now() - this.#limits.idleMs
    for (const session of this.#sessions.values()) {
      if (session.lastUsedMs < before && hasNoCalls(session)) this.#evict(session)
    }
  }

  #evict(session: Session): void {
    this.#sessions.delete(session.key)
    session.server.close().catch((error: unknown) => this.#callbacks.onInternalError?.(error))
  }
}

function hasNoCalls({ callsInProgress }: Session): boolean {
  return callsInProgress() === 0
}

function connectTo(server: McpServer, transport: Transport): Promise<void> {
  // The types of its optional callbacks do not fit exactOptionalPropertyTypes.
  return server.connect(transport as Parameters<McpServer['connect']>[0])
}

/** Session ids are unique per key: the id of a session of another key is unknown here. */
function keyOf(keyId: string, id: string): string {
  return `${keyId} ${id}`
}

/** Initializes a session again in place of its client. Nothing here depends on what the client sent the first time. */
async function initialize(transport: Transport, { url, headers }: Request): Promise<void> {
  const hello: InitializeRequest & { jsonrpc: '2.0'; id: string } = {
    jsonrpc: '2.0',
    id: 'initialize',
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
