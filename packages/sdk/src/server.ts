import type { ServerLogLineAnswer, ServerReportAnswer } from './contract/index.ts'
import { eventLines } from './http/event-lines.ts'
import type { Http } from './http/http.ts'
import type { CallOptions } from './options.ts'

export type ServerReport = ServerReportAnswer
export type ServerLogLine = ServerLogLineAnswer

/** The server and its host. Needs a key with the scope `admin`. */
export class Server {
  readonly #http: Http

  constructor(http: Http) {
    this.#http = http
  }

  /** What `dormouse doctor` finds on the host, with free disk and memory. */
  report({ signal, timeoutMs }: CallOptions = {}): Promise<ServerReport> {
    return this.#http.json({ path: '/v1/server', signal, timeoutMs })
  }

  /** The newest lines of the log. With `follow`, lines as they come, until `signal` aborts. */
  async *log({
    after,
    follow,
    signal,
  }: CallOptions & { after?: number; follow?: boolean } = {}): AsyncGenerator<
    ServerLogLine,
    void,
    undefined
  > {
    const headers = { accept: 'text/event-stream' }
    const query = { after, follow }
    const path = '/v1/server/log'
    yield* eventLines<ServerLogLine>(await this.#http.open({ path, query, headers, signal, answerMs: 0 }))
  }
}
