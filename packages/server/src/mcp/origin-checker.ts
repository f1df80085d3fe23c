import { isIP } from 'node:net'
import { DormouseError } from '@dormouse/contracts'
import { isLoopback } from '../config/bind.ts'
import type { ServerConfig } from '../config/config.ts'

export interface RequestOrigin {
  readonly host: string | undefined
  readonly origin: string | undefined
}

/**
 * Against DNS rebinding: a page of the outside can make its own name mean 127.0.0.1, but it cannot hide that name. So requests must
 * come to an address, `localhost`, or a name from the config; and from no page of another site, unless `cors` says that it may.
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
      throw refused(`Origin: pages of ${JSON.stringify(origin)} may not call this`)
    }
  }
}

function refused(message: string): DormouseError {
  return new DormouseError('permission_denied', message, {
    hint: 'Use the address of the server, or set its name as `domain` in the configuration.',
  })
}

/** Without port and brackets, in small letters. */
function hostName(url: string): string | undefined {
  try {
    return new URL(url).hostname.replace(/^\[|\]$/g, '')
  } catch {
    return undefined
  }
}
