import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { ErrorAnswer } from '@dormouse/contracts/http'
import { Dormouse } from 'dormouse'
import type { App } from '../api/route.ts'

/** Clients of the very server that they are in. */
export class LoopbackApi {
  #url: string | undefined
  #inner: Server | undefined
  #isEnding = false

  /** Call it once the app listens on `url`. */
  async open(app: App, url: string): Promise<void> {
    this.#url = url.startsWith('https:') ? await this.#openInner(app) : url
  }

  /** With the key of the caller: it can do what the caller can do. */
  connect(apiKey: string): Dormouse {
    if (this.#url === undefined) throw new Error('asked before the server listens')
    return new Dormouse({ url: this.#url, apiKey, fetch: (...args) => this.#fetch(...args) })
  }

  /**
   * Before the app is closed: calls end at once instead of waiting for a server that does not come back, and what they have started
   * goes on. Runs survive the end of the server; interrupting them would be a loss.
   */
  end(): void {
    this.#isEnding = true
    this.#inner?.close()
    this.#inner?.closeAllConnections()
  }

  /** A certificate is for a name that may lead elsewhere from here, and may be signed by nobody whom Node knows. */
  async #openInner(app: App): Promise<string> {
    const inner = createServer((request, response) => app.routing(request, response))
    // Big files pass here, too, and take what they take.
    inner.requestTimeout = 0
    inner.listen(0, '127.0.0.1')
    await once(inner, 'listening')
    this.#inner = inner
    return `http://127.0.0.1:${(inner.address() as AddressInfo).port}`
  }

  #fetch(...args: Parameters<typeof fetch>): Promise<Response> {
    return this.#isEnding ? Promise.resolve(Response.json(ENDING, { status: 499 })) : fetch(...args)
  }
}

const ENDING: ErrorAnswer = {
  error: {
    code: 'cancelled',
    message: 'The server is ending. What was started goes on at its next start.',
    hint: 'Try again in a moment; variables and files are kept.',
    requestId: 'none',
    docs: 'docs/errors.md#cancelled',
  },
}
