import { lookup } from 'node:dns/promises'
import type { Socket } from 'node:net'
import { parseAddress } from '../policy/address.ts'
import { classOf, translated } from '../policy/address-class.ts'
import { HostAddresses } from '../worker/host-addresses.ts'
import { Dialer, type ProxyOptions } from './dialer.ts'

export interface PublicDialerOptions {
  readonly proxy?: ProxyOptions | undefined
  /** Addresses of this host besides those of its interfaces. */
  readonly ownAddresses?: readonly string[]
}

export interface Target {
  /** A name or an address. */
  readonly host: string
  readonly port: number
}

/** Connects to the public internet for programs of the host whose destinations strangers choose. */
export class PublicDialer {
  readonly #dialer: Dialer
  readonly #hasProxy: boolean
  readonly #hostAddresses = new HostAddresses()

  constructor({ proxy, ownAddresses = [] }: PublicDialerOptions) {
    this.#dialer = new Dialer(proxy)
    this.#hasProxy = proxy !== undefined
    this.#hostAddresses.give(ownAddresses)
  }

  /**
   * Dials the address that was judged: a name that leads elsewhere the next time changes nothing. Rejects with a
   * sentence when no address of the host is public.
   */
  async dial(target: Target, signal: AbortSignal): Promise<Socket> {
    const addresses = await resolve(target.host)
    const address = addresses.find((one) => this.#problemOf(one) === undefined)
    if (address === undefined && (addresses.length > 0 || !this.#hasProxy))
      throw new Error(`${target.host} ${this.#problemOfAll(addresses)}`)
    return this.#connect(target, address, signal)
  }

  /** Dials a host that the operator has named, wherever it is. */
  async dialNamed(target: Target, signal: AbortSignal): Promise<Socket> {
    const [address] = await resolve(target.host)
    if (address === undefined && !this.#hasProxy) throw new Error(`${target.host} has no address`)
    return this.#connect(target, address, signal)
  }

  /** Why a host is not on the public internet. Undefined: it is, or its name is unknown here. */
  async problemOf(host: string): Promise<string | undefined> {
    const addresses = await resolve(host)
    return addresses.length === 0 || addresses.some((one) => this.#problemOf(one) === undefined)
      ? undefined
      : this.#problemOfAll(addresses)
  }

  async #connect({ host, port }: Target, address: string | undefined, signal: AbortSignal): Promise<Socket> {
    return (await this.#dialer.dial({ address, port, names: [host] }, signal)).socket
  }

  #problemOfAll(addresses: readonly string[]): string {
    const [first] = addresses
    return first === undefined ? 'has no address' : `is not a public address (${this.#problemOf(first)})`
  }

  #problemOf(text: string): string | undefined {
    const address = parseAddress(text)
    if (address === undefined) return 'unknown form'
    const { reach, kind } = classOf(address)
    if (reach !== 'public') return kind
    const isOwn = [address, translated(address)].some((one) => this.#hostAddresses.has(one.toString()))
    return isOwn ? 'of this host' : undefined
  }
}

async function resolve(host: string): Promise<string[]> {
  if (parseAddress(host) !== undefined) return [host]
  try {
    return (await lookup(host, { all: true })).map(({ address }) => address)
  } catch {
    return []
  }
}
