import type { InterruptAnswer } from '../contract/index.ts'
import { cancelled, hasCode, throwIfAborted } from '../error.ts'
import { follow } from '../http/follow.ts'
import type { Call, Http, Opened } from '../http/http.ts'
import type { CallOptions } from '../options.ts'
import { onAbort } from '../timing.ts'
import { type RunEvent, readRunEvent, type SentRunEvent } from './run-event.ts'
import type { RunStreamOptions } from './run-options.ts'

const ACCEPT = { accept: 'text/event-stream' }
/** How long a cancelled call waits until the run is interrupted. */
const INTERRUPT_MS = 5_000

/**
 * Starts a run and follows it to its end over as many connections as needed: with its idempotency key until its id is
 * known, then by its id.
 */
export async function* streamRun(
  http: Http,
  sandboxPath: string,
  code: string,
  options: RunStreamOptions = {},
): AsyncGenerator<RunEvent, void, undefined> {
  const { signal, language, context, timeoutMs, input, idempotencyKey = newKey() } = options
  throwIfAborted(signal)
  const start: Call = {
    method: 'POST',
    path: `${sandboxPath}/run`,
    headers: ACCEPT,
    json: { code, language, context, timeoutMs, input, idempotencyKey },
  }
  let runId: string | undefined
  // The caller's signal does not abort the first request before its answer: a run without an id cannot be interrupted.
  const disconnect = new AbortController()
  const open = async (after: number): Promise<Opened> => {
    throwIfAborted(signal)
    const path = runId === undefined ? undefined : `${sandboxPath}/runs/${runId}/events`
    const call = path === undefined ? start : { path, headers: ACCEPT, query: { after } }
    const opened = await http.open({ ...call, signal: disconnect.signal }).catch(async (error: unknown) => {
      if (path !== undefined || context === undefined || !hasCode(error, 'not_found')) throw error
      await createContext(http, sandboxPath, context, disconnect.signal)
      return http.open({ ...start, signal: disconnect.signal })
    })
    runId ??= opened.response.headers.get('x-run-id') ?? undefined
    if (signal?.aborted) disconnect.abort(signal.reason)
    return opened
  }
  let timer: ReturnType<typeof setTimeout> | undefined
  const stopListening = onAbort(signal, () => {
    const disconnectNow = () => disconnect.abort(signal?.reason)
    if (runId !== undefined) disconnectNow()
    else timer = setTimeout(disconnectNow, INTERRUPT_MS)
  })
  try {
    const events = follow<SentRunEvent>({
      open,
      isLast: ({ type }) => type === 'exit',
      signal: disconnect.signal,
    })
    for await (const event of events) {
      if (event.type === 'start') runId = event.runId
      yield readRunEvent(event)
    }
  } catch (error) {
    if (!signal?.aborted) throw error
    // The run may have ended by itself.
    if (runId !== undefined) await interruptRun(http, sandboxPath, runId).catch(() => {})
    throw cancelled(signal)
  } finally {
    clearTimeout(timer)
    stopListening()
  }
}

/** Throws `not_found` if it is the sandbox that does not exist. */
async function createContext(
  http: Http,
  sandboxPath: string,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  const call = { method: 'POST', path: `${sandboxPath}/contexts`, json: { name }, signal } as const
  await http.json(call).catch((error: unknown) => {
    // Another run created it at the same time.
    if (!hasCode(error, 'already_exists')) throw error
  })
}

/** Raises KeyboardInterrupt in the run; the REPL keeps its variables. */
export async function interruptRun(
  http: Http,
  sandboxPath: string,
  runId: string,
  { signal, timeoutMs }: CallOptions = {},
): Promise<InterruptAnswer['outcome']> {
  const call = { method: 'POST', path: `${sandboxPath}/runs/${runId}/interrupt`, repeatable: true } as const
  return (await http.json<InterruptAnswer>({ ...call, answerMs: INTERRUPT_MS, signal, timeoutMs })).outcome
}

/** Not `randomUUID`: browsers have it only on pages served over TLS. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
