import type { Socket } from 'node:net'
import { dialDirect } from './direct.ts'
import { isWithoutProxy } from './no-proxy.ts'
import { dialThroughProxy } from './through-proxy.ts'

/** The host's way out, as its HTTPS_PROXY and NO_PROXY say. */
export interface ProxyOptions {
  /** `http://user:password@proxy.example:3128`, or https. */
  readonly url: string
  readonly noProxy?: readonly string[]
  /**
   * Leave names to the proxy instead of resolving them here. Needed where the host's name servers know no names of the internet. Then it is the
   * proxy that decides whether a name may lead to an address that is not public. When left out: only if the host has no working name server at all.
   */
  readonly resolves?: boolean
}

export interface Destination {
  /** What has been judged. Undefined: the name is left to the proxy. */
  readonly address: string | undefined
  readonly port: number
  /** Under which the sandbox knows it; some may need no proxy. */
  readonly names: readonly string[]
}

export class Dialer {
  readonly #proxy: URL | undefined
  readonly #noProxy: readonly string[]
  readonly #resolves: boolean | undefined

  constructor(proxy?: ProxyOptions) {
    this.#proxy = proxy === undefined ? undefined : new URL(proxy.url)
    this.#noProxy = proxy?.noProxy ?? []
    this.#resolves = proxy?.resolves
  }

  /** `hasNameServer`: somebody answers the host when it asks for names. */
  isResolvedByProxy(name: string, hasNameServer: boolean): boolean {
    if (this.#proxy === undefined || isWithoutProxy(this.#noProxy, [name], 0)) return false
    return this.#resolves ?? !hasNameServer
  }

  /** The second half says whether the kernel itself has taken us there, so that both ends of the socket are true. */
  async dial(
    { address, port, names }: Destination,
    signal: AbortSignal,
  ): Promise<{ socket: Socket; isDirect: boolean }> {
    const hosts = address === undefined ? names : [address, ...names]
    if (this.#proxy === undefined || isWithoutProxy(this.#noProxy, hosts, port)) {
      if (address === undefined) throw new Error('no address, and no proxy that could find one')
      return { socket: await dialDirect({ host: address, port }, signal), isDirect: true }
    }
    // By address where there is one: a proxy that resolves again could be led somewhere else.
    const host = address ?? names[0]
    if (host === undefined) throw new Error('neither a name nor an address')
    return { socket: await dialThroughProxy(this.#proxy, { host, port }, signal), isDirect: false }
  }
}
