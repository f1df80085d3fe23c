import type { Socket } from 'node:net'
import { dialDirect } from './direct.ts'
import { isWithoutProxy } from './no-proxy.ts'
import { dialThroughProxy } from './through-proxy.ts'

/** The host's HTTP proxy, as in HTTPS_PROXY and NO_PROXY. */
export interface ProxyOptions {
  /** `http://user:password@proxy.example:3128`, or https. */
  readonly url: string
  readonly noProxy?: readonly string[]
  /**
   * Whether the proxy resolves names. Needed where the host's name servers do not know the names of the internet; the
   * proxy then has to refuse names that lead to private addresses. Default: only if the host has no working name
   * server.
   */
  readonly resolves?: boolean
}

export interface Destination {
  /** The address that the policy judged. Undefined when the proxy resolves the name. */
  readonly address: string | undefined
  readonly port: number
  /** The names under which the sandbox knows the address; NO_PROXY may list them. */
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

  /** `hasNameServer`: the host has a working name server. */
  isResolvedByProxy(name: string, hasNameServer: boolean): boolean {
    if (this.#proxy === undefined || isWithoutProxy(this.#noProxy, [name], 0)) return false
    return this.#resolves ?? !hasNameServer
  }

  /** `isDirect`: without a proxy, so the addresses of both ends of the socket are the real ones. */
  async dial(
    { address, port, names }: Destination,
    signal: AbortSignal,
  ): Promise<{ socket: Socket; isDirect: boolean }> {
    const hosts = address === undefined ? names : [address, ...names]
    if (this.#proxy === undefined || isWithoutProxy(this.#noProxy, hosts, port)) {
      if (address === undefined)
        throw new Error('there is neither an address nor a proxy to resolve the name')
      return { socket: await dialDirect({ host: address, port }, signal), isDirect: true }
    }
    // By address where there is one: a proxy that resolves the name again might reach another address.
    const host = address ?? names[0]
    if (host === undefined) throw new Error('there is neither a name nor an address')
    return { socket: await dialThroughProxy(this.#proxy, { host, port }, signal), isDirect: false }
  }
}
