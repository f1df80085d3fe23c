import { isIP } from 'node:net'
import { DormouseError } from '@dormouse/contracts'
import { isLoopback } from '../config/bind.ts'
import type { ServerConfig } from '../config/config.ts'

export interface RequestOrigin {
  readonly host: string | undefined
  readonly origin: string | undefined
}

/**
 * Prevents DNS rebinding: a web page can make its own host name resolve to 127.0.0.1, but it cannot hide that name. So
 * `Host` must be an address, `localhost` or a name from the configuration, and `Origin` must be this server or an
 * origin that `cors` allows.
 */
export function originChecker(
  config: Pick<ServerConfig, 'host' | 'domain' | 'cors'>,
): (headers: RequestOrigin) => void {
  const isOurs = (name: string) =>
    name === 'localhost' ||
    isLoopback(name) ||
    name === config.host ||
    (config.domain !== undefined && (name === config.domain || name.endsWith(`.${config.domain}`)))
  return ({ host, origin }) => {
    const name = hostName(`http://${host ?? ''}`)
    if (name === undefined || !(isOurs(name) || isIP(name) !== 0)) {
      throw refused(`Host: this server does not answer to the name ${JSON.stringify(host ?? '')}`)
    }
    if (origin === undefined || config.cors.origins.includes(origin)) return
    const from = hostName(origin)
    if (from === undefined || !isOurs(from)) {
      throw refused(`Origin: pages of ${JSON.stringify(origin)} may not call this server`)
    }
  }
}

function refused(message: string): DormouseError {
  return new DormouseError('permission_denied', message, {
    hint: 'Use the address of the server, or set its name as `domain` in the configuration.',
  })
}

/** Without port and brackets, in lower case. */
function hostName(url: string): string | undefined {
  try {
    return new URL(url).hostname.replace(/^\[|\]$/g, '')
  } catch {
    return undefined
  }
}
