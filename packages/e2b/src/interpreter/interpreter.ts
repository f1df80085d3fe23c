import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import type { RunEvent } from '@dormouse/contracts'
import { z } from 'zod'
import type { BackendRuns, BackendSandbox } from '../backend.ts'
import { headerOf } from '../envd/caller.ts'
import { isSame } from '../envd/signature.ts'
import { withKeepalive } from '../envd/with-keepalive.ts'
import { ApiError, describeError } from '../http/api-error.ts'
import { disconnected, readJson, sendJson, sendNothing, sendText } from '../http/respond.ts'
import { type Exchange, Router } from '../http/router.ts'
import type { SandboxRecord } from '../sandbox/record.ts'
import { type CodeContext, CodeContexts } from './contexts.ts'
import { environmentCode, normalizeLanguage } from './languages.ts'
import { resultOf } from './result.ts'

/** The port that clients reach E2B's code interpreter at. */
export const INTERPRETER_PORT = 49_999

const BODY_MAX_BYTES = 32 * 1024 * 1024
/** Shows that the connection is alive, and notices soon when it is not. */
const KEEPALIVE_MS = 5_000

const executeBody = z.object({
  code: z.string(),
  context_id: z.string().nullish(),
  language: z.string().nullish(),
  env_vars: z.record(z.string(), z.string()).nullish(),
})
const contextBody = z.object({ language: z.string().nullish(), cwd: z.string().nullish() })

interface InSandbox {
  readonly sandbox: BackendSandbox
  readonly record: SandboxRecord
}

/** E2B's code interpreter: contexts, and runs in them as lines of JSON. Errors are plain text. */
export class Interpreter {
  readonly #runs: BackendRuns
  readonly #contexts = new CodeContexts()
  readonly #router = new Router<InSandbox>()

  constructor(runs: BackendRuns) {
    this.#runs = runs
    const router = this.#router
    const contexts = this.#contexts
    router.on('GET', '/health', ({ response }) => sendJson(response, 200, 'OK'))
    router.on('POST', '/execute', (exchange) => this.#execute(exchange))
    router.on('GET', '/contexts', async ({ response, sandbox }) =>
      sendJson(response, 200, await contexts.list(sandbox)),
    )
    router.on('POST', '/contexts', async ({ request, response, sandbox }) => {
      const { language, cwd } = parse(contextBody, await readJson(request, BODY_MAX_BYTES))
      const wanted = { language: normalizeLanguage(language), ...(cwd && { cwd }) }
      sendJson(response, 200, await contexts.create(sandbox, wanted))
    })
    router.on('POST', '/contexts/:id/restart', async ({ response, sandbox, params }) => {
      await contexts.restart(sandbox, params['id'] ?? '')
      sendJson(response, 200, null)
    })
    router.on('DELETE', '/contexts/:id', async ({ response, sandbox, params }) => {
      await contexts.remove(sandbox, params['id'] ?? '')
      sendJson(response, 200, null)
    })
  }

  forget(sandboxId: string): void {
    this.#contexts.forget(sandboxId)
  }

  /** False: the interpreter has no such path. */
  async serve(exchange: Omit<Exchange, 'params'> & InSandbox & { path: string }): Promise<void> {
    const { request, response, path } = exchange
    try {
      const { handle, params, isKnownPath } = this.#router.find(request.method, path)
      if (handle === undefined) sendNothing(response, isKnownPath ? 405 : 404)
      else await handle({ ...exchange, params })
    } catch (error) {
      request.resume()
      if (response.headersSent) response.destroy()
      else {
        const { status, message } = describeError(error)
        sendText(response, status, message)
      }
    }
  }

  async #execute({ request, response, sandbox, record }: Exchange & InSandbox): Promise<void> {
    const given = headerOf(request.headers, 'x-access-token') ?? ''
    if (record.accessToken !== undefined && !isSame(given, record.accessToken))
      throw new ApiError(401, 'unauthorized access, please provide a valid access token')
    const body = parse(executeBody, await readJson(request, BODY_MAX_BYTES))
    if (body.context_id && body.language)
      throw new ApiError(400, 'Only one of context_id or language can be provided')
    const context = body.context_id
      ? await this.#contexts.get(sandbox, body.context_id)
      : await this.#contexts.getDefault(sandbox, normalizeLanguage(body.language))
    const environment = environmentCode(context.language, body.env_vars ?? {})
    if (environment !== undefined) await this.#runToEnd(sandbox, context, environment.set)
    try {
      await this.#stream({ response, sandbox, context, code: body.code })
    } finally {
      if (environment !== undefined) await this.#runToEnd(sandbox, context, environment.reset)
    }
    response.end()
  }

  async #runToEnd(sandbox: BackendSandbox, context: CodeContext, code: string): Promise<void> {
    const run = await this.#start(sandbox, context, code)
    for await (const event of run.events()) if (event.type === 'exit') return
  }

  #start(sandbox: BackendSandbox, { id, language }: CodeContext, code: string) {
    return this.#runs.start(sandbox, { code, language, context: id })
  }

  /** Interrupts the run when the client disconnects, so that the next one does not wait for it. */
  async #stream(execution: {
    response: ServerResponse
    sandbox: BackendSandbox
    context: CodeContext
    code: string
  }): Promise<void> {
    const { response, sandbox, context, code } = execution
    const signal = disconnected(response)
    const run = await this.#start(sandbox, context, code)
    signal.addEventListener('abort', () => void this.#runs.interrupt(sandbox, run.runId).catch(() => {}), {
      once: true,
    })
    response.writeHead(200, { 'content-type': 'application/x-ndjson' })
    response.flushHeaders()
    const count = this.#contexts.countExecution(sandbox, context.id)
    await send(response, { type: 'number_of_executions', execution_count: count })
    for await (const event of withKeepalive(run.events({ signal }), KEEPALIVE_MS)) {
      const line = event === undefined ? { type: 'keepalive' } : lineOf(event)
      if (line !== undefined) await send(response, line)
    }
    // Clients recognize a sandbox that was killed by the connection that breaks.
    if (sandbox.view().state === 'deleting') response.destroy()
    else await send(response, { type: 'end_of_execution' })
  }
}

/** The line for an event; undefined for events that E2B does not have. */
function lineOf(event: RunEvent): object | undefined {
  switch (event.type) {
    case 'stdout':
    case 'stderr':
      return { type: event.type, text: event.data, timestamp: new Date().toISOString() }
    case 'result':
      return resultOf(event.data, event.main === true)
    case 'error':
      return { type: 'error', name: event.name, value: event.message, traceback: event.traceback }
    default:
      return undefined
  }
}

async function send(response: ServerResponse, line: object): Promise<void> {
  if (response.destroyed) return
  if (!response.write(`${JSON.stringify(line)}\n`))
    await Promise.race([once(response, 'drain'), once(response, 'close')])
}

function parse<Schema extends z.ZodType>(schema: Schema, value: unknown): z.output<Schema> {
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  throw new ApiError(400, z.prettifyError(parsed.error))
}
