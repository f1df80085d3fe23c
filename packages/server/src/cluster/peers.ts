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

  /** The JSON that another host answers with. */
  async get(host: HostRecord, path: string, keyId: string): Promise<unknown> {
    const { hostname, port, protocol } = new URL(host.address)
    const headers = {
      authorization: `Dormouse-Hop ${this.tokenFor(keyId)}`,
      'dormouse-hop': this.#options.hostId,
      accept: 'application/json',
    }
    const options = { host: hostname, port, path, headers, timeout: TIMEOUT_MS }
    return await new Promise((resolve, reject) => {
      const fail = (cause?: unknown) =>
        reject(
          new DormouseError('host_unavailable', `Host ${host.id} does not answer.`, {
            details: { host: host.id, retryAfterMs: 1_000 },
            cause,
          }),
        )
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
          if (response.statusCode !== 200) return fail()
          resolve(JSON.parse(Buffer.concat(pieces).toString()))
        })
      })
      request.end()
    })
  }
}
