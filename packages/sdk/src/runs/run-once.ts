import type { RunEventAnswer, RunOnceBody } from '../contract/index.ts'
import { cancelled, DormouseError } from '../error.ts'
import { errorFromAnswer } from '../http/error-from.ts'
import { eventLines } from '../http/event-lines.ts'
import type { Http } from '../http/http.ts'
import { collectRun } from './collect-run.ts'
import type { RunEvent, RunOptions, RunResult } from './run-options.ts'

/** What the sandbox is made of and how the code is run in it. Aborting the signal ends both. */
export type RunOnceOptions = Omit<RunOnceBody, 'code'> &
  Pick<RunOptions, 'signal' | 'onStdout' | 'onStderr' | 'onResult'>

export function runOnce(http: Http, code: string, options: RunOnceOptions): Promise<RunResult> {
  const { signal, onStdout, onStderr, onResult, ...body } = options
  return collectRun(events(http, { code, ...body }, signal), { onStdout, onStderr, onResult })
}

/**
 * As events, which come as long as the code runs: an answer that comes at the end is given up by what is in between. There is no
 * second connection to them, as the sandbox goes with the first.
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
    // To the end of the stream, and not of the run: then the sandbox is gone.
    for await (const event of eventLines<RunEventAnswer>(opened)) {
      if (event.type === 'failed') throw errorFromAnswer(event.error)
      isOver = event.type === 'exit'
      yield event
    }
  } catch (error) {
    if (signal?.aborted) throw cancelled(signal)
    if (!isOver) throw error
  }
  if (!isOver)
    throw new DormouseError('server_unreachable', 'The connection was lost before the end of the run.', {
      hint: 'The run may have been done, and its sandbox is deleted. Run it again if that is as good as once.',
    })
}
