import { pathPart } from '../check.ts'
import { hasCode } from '../error.ts'
import { type Content, contentBody } from '../http/content.ts'
import { follow } from '../http/follow.ts'
import type { Http } from '../http/http.ts'
import type { CallOptions } from '../options.ts'
import { BoundedText } from '../runs/bounded-text.ts'
import { OUTPUT_MAX_BYTES } from '../runs/collect-run.ts'
import { eachWithinTime } from '../timing.ts'
import type { OutputListeners, ProcessEvent, ProcessInfo } from './command-options.ts'
import { CommandResult } from './command-result.ts'

/** A process in a sandbox. It does not end with this object; `commands.connect(id)` returns another one. */
export class Command {
  /** Names the process for good: pids start again after a sleep. */
  readonly id: string
  /** Inside the sandbox. Another process may get it after this one has ended. */
  readonly pid: number
  readonly #http: Http
  readonly #path: string

  constructor(http: Http, sandboxPath: string, { processId, pid }: Pick<ProcessInfo, 'processId' | 'pid'>) {
    this.#http = http
    this.id = processId
    this.pid = pid
    this.#path = `${sandboxPath}/processes/${pathPart('id', processId)}`
  }

  /** Its command, user and state, and its exit code. */
  info({ signal, timeoutMs }: CallOptions = {}): Promise<ProcessInfo> {
    return this.#http.json({ path: this.#path, signal, timeoutMs })
  }

  /** Its events from the start, or those after `after`, until it ends. Reading keeps the sandbox awake. */
  events({ after, ...limits }: CallOptions & { after?: number } = {}): AsyncIterable<ProcessEvent> {
    const [path, headers] = [`${this.#path}/events`, { accept: 'text/event-stream' }]
    return eachWithinTime(limits, (signal) =>
      follow<ProcessEvent>({
        open: (seen) => this.#http.open({ path, headers, query: { after: seen }, signal }),
        isLast: ({ type }) => type === 'exit',
        after,
        signal,
      }),
    )
  }

  /** Waits for its end and returns its output. Aborting, or `timeoutMs`, only stops waiting. */
  async wait({ onStdout, onStderr, ...limits }: CallOptions & OutputListeners = {}): Promise<CommandResult> {
    const stdout = new BoundedText(OUTPUT_MAX_BYTES)
    const stderr = new BoundedText(OUTPUT_MAX_BYTES)
    const result = new CommandResult(this.id, this.pid)
    for await (const event of this.events(limits)) {
      if (event.type === 'stdout') {
        stdout.add(event.data)
        onStdout?.(event.data)
      } else if (event.type === 'stderr') {
        stderr.add(event.data)
        onStderr?.(event.data)
      } else if (event.type === 'truncated') stdout.lose(event.bytes)
      else if (event.type === 'exit') {
        const { seq: _seq, type: _type, ...end } = event
        Object.assign(result, end)
      }
    }
    Object.assign(result, { stdout: stdout.text(), stderr: stderr.text() })
    const truncated = { stdoutBytes: stdout.lostBytes, stderrBytes: stderr.lostBytes }
    if (truncated.stdoutBytes + truncated.stderrBytes > 0) result.truncated = truncated
    return result
  }

  /** Writes to its stdin, as fast as it reads. `close` ends its input. */
  async sendStdin(
    data: Content,
    { close = false, signal, timeoutMs }: CallOptions & { close?: boolean } = {},
  ): Promise<void> {
    const { body, use } = contentBody('data', data)
    await use(() =>
      this.#http.json({
        method: 'POST',
        path: `${this.#path}/stdin`,
        query: { close },
        headers: { 'content-type': 'application/octet-stream' },
        body,
        // As fast as the process reads.
        answerMs: 0,
        signal,
        timeoutMs,
      }),
    )
  }

  /** Sends a signal, by default `SIGKILL`, to it and its process group. Does nothing if it has ended. */
  async kill(name = 'SIGKILL', { signal, timeoutMs }: CallOptions = {}): Promise<void> {
    const call = { method: 'POST', path: `${this.#path}/signal`, json: { signal: name } } as const
    await this.#http.json({ ...call, signal, timeoutMs }).catch((error: unknown) => {
      if (!hasCode(error, 'conflict')) throw error
    })
  }

  /** Resizes its terminal. */
  async resize(size: { cols: number; rows: number }, { signal, timeoutMs }: CallOptions = {}): Promise<void> {
    const call = { method: 'POST', path: `${this.#path}/resize`, json: size, repeatable: true } as const
    await this.#http.json({ ...call, signal, timeoutMs })
  }
}
