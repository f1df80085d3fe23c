import { randomUUID } from 'node:crypto'
import { type Context, DormouseError, type Sandbox } from 'dormouse'
import { codeRun, commandRun, type ToolRun } from './tool-run.ts'

/** Neither start takes a signal: a run whose id is unknown could not be stopped. */

export interface StartCode {
  readonly code: string
  readonly language?: Context['language'] | undefined
  readonly context?: string | undefined
  readonly timeoutMs?: number | undefined
}

export async function startCode(sandbox: Sandbox, what: StartCode): Promise<ToolRun> {
  const { response, close } = await sandbox.client.http.begin({
    method: 'POST',
    path: `/v1/sandboxes/${sandbox.id}/run`,
    headers: { accept: 'text/event-stream' },
    json: { ...what, idempotencyKey: randomUUID() },
    repeatable: true,
  })
  // The events are read by id, over connections that may end before the run does.
  response.body?.cancel().catch(() => {})
  close()
  const runId = response.headers.get('x-run-id')
  if (runId === null) throw new DormouseError('internal', 'The server returned no id of the run.')
  return codeRun(sandbox, runId)
}

export interface StartCommand {
  readonly command: string
  readonly cwd?: string | undefined
  readonly stdin?: string | undefined
  readonly timeoutMs?: number | undefined
}

export async function startCommand(
  sandbox: Sandbox,
  { command: line, cwd, stdin, timeoutMs }: StartCommand,
): Promise<ToolRun> {
  const command = await sandbox.commands.start(line, {
    ...(cwd !== undefined && { cwd }),
    ...(timeoutMs !== undefined && { timeoutMs }),
    stdin: stdin !== undefined,
  })
  // Not awaited: a command may read slowly, or end without reading all of its input.
  if (stdin !== undefined) command.sendStdin(stdin, { close: true }).catch(() => {})
  return commandRun(sandbox, command)
}
