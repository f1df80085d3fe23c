import { Dormouse, type DormouseOptions, type Sandbox } from 'dormouse'
import type { CommandIo } from './command-io.ts'
import { findSandbox } from './find-sandbox.ts'
import { lightFetch } from './light-fetch.ts'
import { Progress } from './progress.ts'

/** The options that every command takes. */
export interface CommonOptions {
  readonly json?: boolean
  readonly url?: string
  readonly data?: string
}

/** One invocation of a command: its options, its client and its output. */
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

  /** A client with other options. */
  connect(more: DormouseOptions = {}): Dormouse {
    const { url, data } = this.#options
    return new Dormouse({ url, dataDir: data, fetch: lightFetch, ...more })
  }

  /** Finds a sandbox by name, id or a prefix of either. */
  sandbox(ref: string, client = this.client): Promise<Sandbox> {
    return findSandbox(client, ref, this.signal)
  }

  /** Prints the result to stdout: JSON with `--json`, text otherwise. */
  printResult(value: unknown, text: string): void {
    this.io.stdout.write(this.isJson ? `${JSON.stringify(value, null, 2)}\n` : text)
  }

  /** Prints one name per line. */
  printNames(items: readonly { readonly id?: string; readonly name?: string | undefined }[]): void {
    const names = items.map(({ id, name }) => name ?? id ?? '')
    this.printResult(names, names.map((name) => `${name}\n`).join(''))
  }

  /** Prints one line of a result that has no end. */
  printJsonLine(value: unknown): void {
    this.io.stdout.write(`${JSON.stringify(value)}\n`)
  }

  /** Prints a note for people to stderr. */
  note(text: string): void {
    if (!this.isJson) this.io.stderr.write(`${text}\n`)
  }

  /** Shows on a terminal what the command waits for. */
  async withProgress<Value>(doing: string, work: Promise<Value>): Promise<Value> {
    using _shown = this.progress(doing)
    return await work
  }

  progress(doing: string): Progress {
    return new Progress(this.isJson ? undefined : this.io.stderr, doing)
  }
}
