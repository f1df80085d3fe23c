import { hasErrorCode, type RunEvent, type RunId } from '@dormouse/contracts'
import type { StartRun } from '@dormouse/engine'
import { Attachment } from './attach.ts'
import { explainKills } from './explain-kills.ts'
import type { Sandbox } from './sandbox.ts'

/** A run as its sandbox needs to know it. */
export interface RunToFollow {
  readonly runId: RunId
  /** What to start. Undefined: the sandbox has it already. */
  readonly request: StartRun | undefined
  /** `seq` of the last event that the caller has; -1: none. */
  readonly after: number
  readonly signal: AbortSignal
}

/** The request is about to be sent to the guest. It is sent when the caller asks for the next item. */
export interface SendingRun {
  readonly type: 'sending'
}

/**
 * Events of one run, from its start to its `exit`, over as many burrows as it takes. A run that has no event yet
 * wakes its sandbox; one that has begun sleeps and wakes with it. Never starts a run twice.
 */
export async function* attachRun(
  sandbox: Sandbox,
  { runId, request, after, signal }: RunToFollow,
): AsyncGenerator<RunEvent | SendingRun> {
  let lastSeq = after
  const explain = explainKills(sandbox, runId)
  using attachment = new Attachment(sandbox, {
    cause: 'run',
    what: `run ${runId}`,
    kind: 'run',
    wakes: after === -1 ? 'until_received' : 'never',
    signal,
  })
  for (;;) {
    const { runs } = await attachment.connect()
    try {
      if (lastSeq === -1 && request !== undefined) {
        yield { type: 'sending' }
        try {
          for await (const event of runs.stream({ ...request, runId }, { signal })) {
            attachment.received()
            lastSeq = event.seq
            yield await explain(event)
          }
          return
        } catch (error) {
          // An earlier connection broke after it had sent the request: the guest has the run.
          if (!hasErrorCode(error, 'already_exists')) throw error
        }
      }
      for await (const event of runs.events(runId, { after: lastSeq, follow: true, signal })) {
        attachment.received()
        lastSeq = event.seq
        yield await explain(event)
      }
      return
    } catch (error) {
      await attachment.reconnectAfter(error)
    }
  }
}
