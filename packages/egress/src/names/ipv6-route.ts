import { createSocket } from 'node:dgram'
import { IPV6_ROUTE_TTL_MS } from '../limits.ts'

/** Any address of the public IPv6 internet; nothing is sent to it. */
const FAR_AWAY = '2600::'

/**
 * Whether this host has a route to the IPv6 internet. Without one the resolver withholds IPv6 addresses: each would
 * cost the program a time-out.
 */
export class Ipv6Route {
  #exists = false
  #validUntilMs = 0

  async exists(): Promise<boolean> {
    if (performance.now() >= this.#validUntilMs) {
      this.#exists = await hasRoute(FAR_AWAY)
      this.#validUntilMs = performance.now() + IPV6_ROUTE_TTL_MS
    }
    return this.#exists
  }
}

/** Connecting a datagram socket sends nothing; it makes the kernel look up a route. */
function hasRoute(address: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket('udp6')
    const done = (found: boolean) => {
      socket.close()
      resolve(found)
    }
    socket.once('error', () => done(false))
    socket.once('connect', () => done(true))
    socket.connect(53, address)
  })
}
