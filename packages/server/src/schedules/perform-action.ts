import { request as httpRequest } from 'node:http'
import { onAbort } from '@dormouse/async'
import { DormouseError } from '@dormouse/contracts'
import type { Caller } from '../access/caller.ts'
import type { Deployments } from '../deployments/deployments.ts'
import type { Jobs } from '../jobs/jobs.ts'
import type { Runs } from '../runs/runs.ts'
import type { SandboxHandle } from '../sandbox/sandbox-handle.ts'
import type { SandboxCalls } from '../sandbox/sandbox-service.ts'
import type { FiringOutcome, ScheduleAction } from './schedule-rows.ts'

/** A program that does not begin to answer for this long has failed. */
const ANSWER_MS = 5 * 60_000

export interface ActionServices {
  readonly sandboxes: Pick<SandboxCalls, 'get'>
  readonly runs: Pick<Runs, 'start'>
  readonly jobs: Pick<Jobs, 'create'>
  readonly deployments: Pick<Deployments, 'take'>
}

export interface PerformAction {
  readonly action: ScheduleAction
  readonly caller: Caller
  /** The same for every try of the same firing. */
  readonly key: string
  /** Called before a request is sent. */
  readonly onSend: () => void
  readonly signal: AbortSignal
}

/** Does what a schedule asks for. Runs and jobs are started once for each key; a request is sent by this call only. */
export async function performAction(
  { sandboxes, runs, jobs, deployments }: ActionServices,
  { action, caller, key, onSend, signal }: PerformAction,
): Promise<FiringOutcome> {
  if (action.type === 'job') {
    const { job } = await jobs.create({ ...action.job, idempotencyKey: key }, caller)
    return { jobId: job.id }
  }
  if (action.type === 'service') {
    // The replica that a request of anyone else would get.
    const lease = await deployments.take(action.service, caller, { session: undefined, signal })
    try {
      const { sandbox, port } = lease
      const status = await sendRequest(sandbox, { ...action, port }, { key, onSend, signal })
      return { sandboxId: sandbox.id, status }
    } finally {
      lease.release()
    }
  }
  const sandbox = sandboxes.get(action.sandbox, caller)
  if (action.type === 'run') {
    const { code, language, context, timeoutMs } = action
    const run = await runs.start(sandbox, { code, language, context, timeoutMs, idempotencyKey: key })
    return { sandboxId: sandbox.id, runId: run.runId }
  }
  const status = await sendRequest(sandbox, action, { key, onSend, signal })
  return { sandboxId: sandbox.id, status }
}

type Request = Pick<
  Extract<ScheduleAction, { type: 'request' }>,
  'port' | 'method' | 'path' | 'headers' | 'body'
>

/** Returns the status of the answer. Throws for one that is an error. */
async function sendRequest(
  sandbox: SandboxHandle,
  { port, method, path, headers, body }: Request,
  { key, onSend, signal }: Pick<PerformAction, 'key' | 'onSend' | 'signal'>,
): Promise<number> {
  const what = `a request of a schedule to port ${port}`
  using _hold = sandbox.hold(what, ANSWER_MS, 'connection')
  const socket = await sandbox.use({ cause: 'port', what, signal }, (guest) => guest.ports.connect(port))
  onSend()
  const status = await new Promise<number>((resolve, reject) => {
    const request = httpRequest({
      ...{ method, path, host: 'localhost', timeout: ANSWER_MS },
      headers: { ...headers, 'idempotency-key': key },
      createConnection: () => socket as never,
    })
    const giveUp = () =>
      request.destroy(new DormouseError('agent_unreachable', `Port ${port} did not answer.`))
    const listener = onAbort(signal, giveUp)
    request.on('timeout', giveUp).on('error', reject)
    request.on('response', (response) => {
      // The body is not kept.
      response.resume().on('error', () => {})
      response.on('close', () => listener[Symbol.dispose]())
      resolve(response.statusCode ?? 0)
    })
    request.end(body)
  }).finally(() => socket.destroy())
  if (status >= 400)
    throw new DormouseError('conflict', `The program on port ${port} answered with ${status}.`)
  return status
}
