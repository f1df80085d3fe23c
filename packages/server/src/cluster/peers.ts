import { Agent, request as plainRequest } from 'node:http'
import { Agent as TlsAgent, request as tlsRequest } from 'node:https'
import type { ClusterKey, HostRecord, Hosts } from '@dormouse/cluster'
import { DormouseError } from '@dormouse/contracts'

export interface PeersOptions {
  readonly hosts: Hosts
  readonly hostId: string
  readonly key: ClusterKey
  /** Certificates that sign those of the other hosts, instead of the usual ones. */
  readonly trust: { ca?: string[] }
}

export interface PeerRequest {
  readonly method: string
  readonly path: string
  readonly body?: object | undefined
  /** The key of the caller, whose rights the request has. */
  readonly keyId: string
  readonly timeoutMs?: number
}

const TIMEOUT_MS = 5_000
/** Clocks of hosts may differ by this much. */
const TOKEN_MS = 60_000
const BODY_MAX_BYTES = 64 * 1024 ** 2

/** Requests of this host to others, for one of its callers. */
export class Peers implements Disposable {
  readonly #options: PeersOptions
  readonly #plain = new Agent({ keepAlive: true })
  readonly #tls: TlsAgent

  constructor(options: PeersOptions) {
    this.#options = options
    this.#tls = new TlsAgent({ keepAlive: true, ...options.trust })
  }

  [Symbol.dispose](): void {
    this.#plain.destroy()
    this.#tls.destroy()
  }

  /** The other hosts that answer. */
  alive(): HostRecord[] {
    const { hosts, hostId } = this.#options
    return hosts
      .all()
      .filter(({ id, address }) => id !== hostId && address !== '' && hosts.stateOf(id) === 'alive')
  }

  /** Says to another host which key a request is for. */
  tokenFor(keyId: string): string {
    const text = `${keyId}.${Date.now()}`
    return `${text}.${this.#options.key.sign(text)}`
  }

  /** The key, or undefined for a token that no host of this cluster has made in the last minute. */
  verify(token: string): string | undefined {
    const [keyId, at, signature] = token.split('.')
    if (keyId === undefined || at === undefined || signature === undefined) return undefined
    if (Math.abs(Date.now() - Number(at)) > TOKEN_MS) return undefined
    return this.#options.key.isSigned(`${keyId}.${at}`, signature) ? keyId : undefined
  }

  /** The JSON that another host answers with. Throws `host_unavailable` unless it is a success. */
  async get(host: HostRecord, path: string, keyId: string): Promise<unknown> {
    const { status, body } = await this.request(host, { method: 'GET', path, keyId })
    if (status !== 200) throw unavailable(host)
    return body
  }

  /** What another host answers to a request of a caller. */
  async request(
    host: HostRecord,
    { method, path, body, keyId, timeoutMs = TIMEOUT_MS }: PeerRequest,
  ): Promise<{ status: number; body: unknown }> {
    const { hostname, port, protocol } = new URL(host.address)
    const content = body === undefined ? undefined : JSON.stringify(body)
    const headers = {
      authorization: `Dormouse-Hop ${this.tokenFor(keyId)}`,
      'dormouse-hop': this.#options.hostId,
      accept: 'application/json',
      ...(content !== undefined && { 'content-type': 'application/json' }),
    }
    const options = { host: hostname, port, path, method, headers, timeout: timeoutMs }
    return await new Promise((resolve, reject) => {
      const fail = (cause?: unknown) => reject(unavailable(host, cause))
      const request =
        protocol === 'https:'
          ? tlsRequest({ ...options, agent: this.#tls })
          : plainRequest({ ...options, agent: this.#plain })
      request.on('error', fail).on('timeout', () => request.destroy(new Error('no answer in time')))
      request.on('response', (response) => {
        const pieces: Buffer[] = []
        let bytes = 0
        response.on('data', (piece: Buffer) => {
          bytes += piece.length
          if (bytes > BODY_MAX_BYTES) request.destroy(new Error('the answer is too large'))
          else pieces.push(piece)
        })
        response.on('error', fail)
        response.on('end', () => {
          try {
            const text = Buffer.concat(pieces).toString()
            resolve({ status: response.statusCode ?? 0, body: text === '' ? undefined : JSON.parse(text) })
          } catch (error) {
            fail(error)
          }
        })
      })
      request.end(content)
    })
  }
}

function unavailable({ id }: HostRecord, cause?: unknown): DormouseError {
  return new DormouseError('host_unavailable', `Host ${id} does not answer.`, {
    details: { host: id, retryAfterMs: 1_000 },
    cause,
  })
}
