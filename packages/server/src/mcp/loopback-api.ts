import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { ErrorAnswer } from '@dormouse/contracts/http'
import { Dormouse } from 'dormouse'
import type { App } from '../api/route.ts'

/** SDK clients for this server itself. */
export class LoopbackApi {
  #url: string | undefined
  #inner: Server | undefined
  #isEnding = false

  /** Call once the app listens on `url`. */
  async open(app: App, url: string): Promise<void> {
    this.#url = url.startsWith('https:') ? await this.#openInner(app) : url
  }

  /** Uses the caller's key, so the client can do what the caller can do. */
  connect(apiKey: string): Dormouse {
    if (this.#url === undefined) throw new Error('connect() was called before the server listens')
    return new Dormouse({ url: this.#url, apiKey, fetch: (...args) => this.#fetch(...args) })
  }

  /**
   * Call before the app closes. Pending calls fail at once instead of waiting for a server that is stopping. What they
   * started continues: runs survive a restart, so they are not interrupted.
   */
  end(): void {
    this.#isEnding = true
    this.#inner?.close()
    this.#inner?.closeAllConnections()
  }

  /**
   * Over TLS a second listener on loopback serves plain HTTP: the certificate's name may lead elsewhere from here, and
   * Node may not trust its issuer.
   */
  async #openInner(app: App): Promise<string> {
    const inner = createServer((request, response) => app.routing(request, response))
    // Uploads of large files take their time.
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
    message: 'The server is stopping. Runs continue at its next start.',
    hint: 'Try again in a moment; variables and files are kept.',
    requestId: 'none',
    docs: 'docs/errors.md#cancelled',
  },
}
