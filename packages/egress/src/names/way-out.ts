import { createSocket } from 'node:dgram'
import { WAY_OUT_TTL_MS } from '../limits.ts'

/** Any address of the public IPv6 internet; nothing is sent to it. */
const FAR_AWAY = '2600::'

/** Whether this host has a route to the IPv6 internet. An address that leads nowhere costs every program a time-out, so it is not told. */
export class WayOut {
  #hasIpv6 = false
  #validUntilMs = 0

  async hasIpv6(): Promise<boolean> {
    if (performance.now() >= this.#validUntilMs) {
      this.#hasIpv6 = await hasRoute(FAR_AWAY)
      this.#validUntilMs = performance.now() + WAY_OUT_TTL_MS
    }
    return this.#hasIpv6
  }
}

/** Connecting a datagram socket sends nothing; it makes the kernel look for a route. */
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
