import type { InterruptAnswer } from '../contract/index.ts'
import { cancelled, throwIfAborted } from '../error.ts'
import { follow } from '../http/follow.ts'
import type { Call, Http, Opened } from '../http/http.ts'
import type { RunEvent, RunStreamOptions } from './run-options.ts'

const ACCEPT = { accept: 'text/event-stream' }
/** Nobody who gives up wants to wait long for the server to hear of it. */
const INTERRUPT_MS = 5_000

/**
 * Starts a run and follows it to its end over as many connections as it takes. Sent again with the same key until its id is known,
 * then followed by that.
 */
export async function* streamRun(
  http: Http,
  sandboxPath: string,
  code: string,
  options: RunStreamOptions = {},
): AsyncGenerator<RunEvent, void, undefined> {
  const { signal, language, context, timeoutMs, idempotencyKey = newKey() } = options
  throwIfAborted(signal)
  const start: Call = {
    method: 'POST',
    path: `${sandboxPath}/run`,
    headers: ACCEPT,
    json: { code, language, context, timeoutMs, idempotencyKey },
  }
  let runId: string | undefined
  // The request itself does not hear the caller's signal before its answer has begun: what has not been answered cannot be interrupted.
  const hangUp = new AbortController()
  const open = async (after: number): Promise<Opened> => {
    throwIfAborted(signal)
    const path = runId === undefined ? undefined : `${sandboxPath}/runs/${runId}/events`
    const call = path === undefined ? start : { path, headers: ACCEPT, query: { after } }
    const opened = await http.open({ ...call, signal: hangUp.signal })
    runId ??= opened.response.headers.get('x-run-id') ?? undefined
    if (signal?.aborted) hangUp.abort(signal.reason)
    return opened
  }
  let patience: ReturnType<typeof setTimeout> | undefined
  const onAbort = () => {
    const now = () => hangUp.abort(signal?.reason)
    if (runId !== undefined) now()
    else patience = setTimeout(now, INTERRUPT_MS)
  }
  signal?.addEventListener('abort', onAbort, { once: true })
  try {
    const events = follow<RunEvent>({ open, isLast: ({ type }) => type === 'exit', signal: hangUp.signal })
    for await (const event of events) {
      if (event.type === 'start') runId = event.runId
      yield event
    }
  } catch (error) {
    if (!signal?.aborted) throw error
    if (runId !== undefined) await interruptRun(http, sandboxPath, runId).catch(() => {})
    throw cancelled(signal)
  } finally {
    clearTimeout(patience)
    signal?.removeEventListener('abort', onAbort)
  }
}

/** KeyboardInterrupt; the REPL and its variables live on. */
export async function interruptRun(
  http: Http,
  sandboxPath: string,
  runId: string,
  signal?: AbortSignal,
): Promise<InterruptAnswer['outcome']> {
  const call = { method: 'POST', path: `${sandboxPath}/runs/${runId}/interrupt`, repeatable: true } as const
  return (await http.json<InterruptAnswer>({ ...call, timeoutMs: INTERRUPT_MS, signal })).outcome
}

/** Not `randomUUID`: browsers have it only on pages that came over TLS. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
