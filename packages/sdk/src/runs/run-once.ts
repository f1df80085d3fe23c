import type { RunEventAnswer, RunOnceBody } from '../contract/index.ts'
import { cancelled, DormouseError } from '../error.ts'
import { errorFromAnswer } from '../http/error-from.ts'
import { eventLines } from '../http/event-lines.ts'
import type { Http } from '../http/http.ts'
import { collectRun } from './collect-run.ts'
import { type RunEvent, readRunEvent } from './run-event.ts'
import type { RunOptions } from './run-options.ts'
import type { RunResult } from './run-result.ts'

/** Options of the sandbox and of the run. Aborting the signal ends both. */
export type RunOnceOptions = Omit<RunOnceBody, 'code'> &
  Pick<RunOptions, 'signal' | 'onStdout' | 'onStderr' | 'onResult'>

export function runOnce(http: Http, code: string, options: RunOnceOptions): Promise<RunResult> {
  const { signal, onStdout, onStderr, onResult, ...body } = options
  return collectRun(events(http, { code, ...body }, signal), { onStdout, onStderr, onResult })
}

/**
 * Reads events while the code runs: a proxy could time out waiting for an answer at the end. It cannot reconnect,
 * because the server deletes the sandbox with the first connection.
 */
async function* events(
  http: Http,
  json: RunOnceBody,
  signal: AbortSignal | undefined,
): AsyncGenerator<RunEvent, void, undefined> {
  const headers = { accept: 'text/event-stream' }
  const opened = await http.begin({ method: 'POST', path: '/v1/run', headers, json, signal })
  let isOver = false
  try {
    // To the end of the stream, not only of the run: the sandbox is deleted then.
    for await (const event of eventLines<RunEventAnswer>(opened)) {
      if (event.type === 'failed') throw errorFromAnswer(event.error)
      isOver = event.type === 'exit'
      yield readRunEvent(event)
    }
  } catch (error) {
    if (signal?.aborted) throw cancelled(signal)
    if (!isOver) throw error
  }
  if (!isOver)
    throw new DormouseError('server_unreachable', 'The connection was lost before the end of the run.', {
      hint: 'The code may have run, and its sandbox is deleted. Run it again if running it twice does no harm.',
    })
}
