import { hasCode } from '../error.ts'
import { follow } from '../http/follow.ts'
import type { Http } from '../http/http.ts'
import type { Abortable } from '../options.ts'
import { BoundedText } from '../runs/bounded-text.ts'
import { OUTPUT_MAX_BYTES } from '../runs/collect-run.ts'
import type { CommandResult, OutputListeners, ProcessEvent, ProcessInfo } from './command-options.ts'

/** A process in a sandbox. It does not end with this object; `commands.connect(pid)` returns another one. */
export class Command {
  readonly pid: number
  readonly #http: Http
  readonly #path: string

  constructor(http: Http, sandboxPath: string, pid: number) {
    this.#http = http
    this.pid = pid
    this.#path = `${sandboxPath}/processes/${pid}`
  }

  /** Its command, user and state, and its exit code. */
  info({ signal }: Abortable = {}): Promise<ProcessInfo> {
    return this.#http.json({ path: this.#path, signal })
  }

  /** Its events from the start, or those after `after`, until it ends. Reading keeps the sandbox awake. */
  events({ after, signal }: Abortable & { after?: number } = {}): AsyncIterable<ProcessEvent> {
    const headers = { accept: 'text/event-stream' }
    return follow<ProcessEvent>({
      open: (seen) =>
        this.#http.open({ path: `${this.#path}/events`, headers, query: { after: seen }, signal }),
      isLast: ({ type }) => type === 'exit',
      after,
      signal,
    })
  }

  /** Waits for its end and returns its output. Aborting only stops waiting. */
  async wait({ onStdout, onStderr, signal }: Abortable & OutputListeners = {}): Promise<CommandResult> {
    const stdout = new BoundedText(OUTPUT_MAX_BYTES)
    const stderr = new BoundedText(OUTPUT_MAX_BYTES)
    const result: CommandResult = { pid: this.pid, stdout: '', stderr: '', exitCode: -1, durationMs: 0 }
    for await (const event of this.events({ signal })) {
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
    return truncated.stdoutBytes + truncated.stderrBytes === 0 ? result : { ...result, truncated }
  }

  /** Writes to its stdin, as fast as it reads. `close` ends its input. */
  async sendStdin(
    data: string | Uint8Array,
    { close = false, signal }: Abortable & { close?: boolean } = {},
  ): Promise<void> {
    await this.#http.json({
      method: 'POST',
      path: `${this.#path}/stdin`,
      query: { close },
      headers: { 'content-type': 'application/octet-stream' },
      body: data as BodyInit,
      timeoutMs: 0,
      signal,
    })
  }

  /** Sends a signal, by default `SIGKILL`, to it and its process group. Does nothing if it has ended. */
  async kill(name = 'SIGKILL', { signal }: Abortable = {}): Promise<void> {
    const call = { method: 'POST', path: `${this.#path}/signal`, json: { signal: name } } as const
    await this.#http.json({ ...call, signal }).catch((error: unknown) => {
      if (!hasCode(error, 'conflict')) throw error
    })
  }

  /** Resizes its terminal. */
  async resize(size: { cols: number; rows: number }, { signal }: Abortable = {}): Promise<void> {
    const call = { method: 'POST', path: `${this.#path}/resize`, json: size, repeatable: true } as const
    await this.#http.json({ ...call, signal })
  }
}
