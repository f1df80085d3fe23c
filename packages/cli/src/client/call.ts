import { Dormouse, type DormouseOptions, type Sandbox } from 'dormouse'
import type { CommandIo } from './command-io.ts'
import { findSandbox } from './find-sandbox.ts'
import { lightFetch } from './light-fetch.ts'
import { Progress } from './progress.ts'

/** What every command takes. */
export interface CommonOptions {
  readonly json?: boolean
  readonly url?: string
  readonly data?: string
}

/** One command that was typed. */
export class Call {
  readonly io: CommandIo
  readonly isJson: boolean
  readonly #options: CommonOptions
  #client: Dormouse | undefined

  constructor(io: CommandIo, options: CommonOptions) {
    this.io = io
    this.isJson = options.json === true
    this.#options = options
  }

  get signal(): AbortSignal {
    return this.io.signal
  }

  get client(): Dormouse {
    this.#client ??= this.connect()
    return this.#client
  }

  /** A client with settings of its own. */
  connect(more: DormouseOptions = {}): Dormouse {
    const { url, data } = this.#options
    return new Dormouse({ url, dataDir: data, fetch: lightFetch, ...more })
  }

  /** By name, id or the beginning of either. */
  sandbox(ref: string, client = this.client): Promise<Sandbox> {
    return findSandbox(client, ref, this.signal)
  }

  /** The outcome: as JSON for programs, as text for people. */
  answer(value: unknown, text: string): void {
    this.io.stdout.write(this.isJson ? `${JSON.stringify(value, null, 2)}\n` : text)
  }

  /** What they are called, one per line. */
  answerNames(items: readonly { readonly id?: string; readonly name?: string | undefined }[]): void {
    const names = items.map(({ id, name }) => name ?? id ?? '')
    this.answer(names, names.map((name) => `${name}\n`).join(''))
  }

  /** One line of an outcome that has no end. */
  line(value: unknown): void {
    this.io.stdout.write(`${JSON.stringify(value)}\n`)
  }

  /** For people only, beside the outcome. */
  note(text: string): void {
    if (!this.isJson) this.io.stderr.write(`${text}\n`)
  }

  /** Shows on a terminal that something takes its time. */
  async during<Value>(doing: string, work: Promise<Value>): Promise<Value> {
    using _shown = this.progress(doing)
    return await work
  }

  progress(doing: string): Progress {
    return new Progress(this.isJson ? undefined : this.io.stderr, doing)
  }
}
