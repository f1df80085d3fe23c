import { type Command, DormouseError, type ProcessEvent, type RunEvent, type Sandbox } from 'dormouse'

const PROCESS_ID = /^pr-\w{16}$/
const RUN_ID = /^run-\w{16}$/

export type ToolRunEvent = RunEvent | ProcessEvent

export interface ToolRunStatus {
  readonly state: 'queued' | 'running' | 'finished'
  readonly startedAt: string
  readonly exitCode?: number | undefined
}

/** Code or a shell command in a sandbox. It continues when no call waits for it. */
export interface ToolRun {
  /** The id for `get_run` and `cancel_run`. */
  readonly id: string
  status(signal: AbortSignal): Promise<ToolRunStatus>
  /** Its events until its end. */
  follow(after: number, signal: AbortSignal): AsyncIterable<ToolRunEvent>
  /** The events that exist now. */
  read(after: number, signal: AbortSignal): Promise<ToolRunEvent[]>
  /** Interrupts code, or kills a command. False if it has already ended. */
  stop(): Promise<boolean>
}

/** A run of code in a context. */
export function codeRun(sandbox: Sandbox, runId: string): ToolRun {
  return {
    id: runId,
    status: async (signal) => {
      const { state, startedAt, exitCode } = await sandbox.runs.get(runId, { signal })
      // The server gives a lost run an error and an exit code, so it ends like any other.
      return { state: state === 'lost' ? 'finished' : state, startedAt, exitCode }
    },
    follow: (after, signal) => sandbox.runs.events(runId, { after, signal }),
    read: (after, signal) => readEvents(sandbox, `runs/${runId}`, { after, signal }),
    stop: async () => (await sandbox.runs.interrupt(runId)) !== 'finished',
  }
}

/** A shell command, by the id of its process. */
export function commandRun(sandbox: Sandbox, command: Command): ToolRun {
  const info = (signal?: AbortSignal) => command.info({ signal })
  return {
    id: command.id,
    status: async (signal) => {
      const { state, startedAt, exitCode } = await info(signal)
      return { state: state === 'exited' ? 'finished' : state, startedAt, exitCode }
    },
    follow: (after, signal) => command.events({ after, signal }),
    read: (after, signal) => readEvents(sandbox, `processes/${command.id}`, { after, signal }),
    stop: async () => {
      const { state } = await info()
      await command.kill()
      return state === 'running'
    },
  }
}

/** Throws `not_found`. */
export async function findToolRun(sandbox: Sandbox, id: string, signal: AbortSignal): Promise<ToolRun> {
  if (PROCESS_ID.test(id)) return commandRun(sandbox, await sandbox.commands.connect(id, { signal }))
  if (!RUN_ID.test(id))
    throw new DormouseError('not_found', `run: "${id}" is not the id of a run`, {
      hint: 'Use `run` of an earlier result, or leave it out for the last run.',
    })
  await sandbox.runs.get(id, { signal })
  return codeRun(sandbox, id)
}

async function readEvents(
  { client, id }: Sandbox,
  what: string,
  { after, signal }: { after: number; signal: AbortSignal },
): Promise<ToolRunEvent[]> {
  const { response, close } = await client.http.begin({
    path: `/v1/sandboxes/${id}/${what}/events`,
    query: { after, follow: false },
    headers: { accept: 'application/x-ndjson' },
    signal,
  })
  try {
    const lines = (await response.text()).split('\n').filter((line) => line !== '')
    return lines.map((line) => JSON.parse(line) as ToolRunEvent)
  } finally {
    close()
  }
}
