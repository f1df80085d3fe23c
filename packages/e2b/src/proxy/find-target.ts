import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { headerOf } from '../envd/caller.ts'

/** The sandbox and port that a request is for. */
export interface Target {
  readonly sandboxId: string
  readonly port: number
}

const PORT = /^[1-9]\d{0,4}$/
const LABEL = /^(?<port>[1-9]\d{0,4})-(?<sandboxId>[a-z0-9][a-z0-9-]*)$/

/**
 * Reads the routing headers where they count, which is at an address, `localhost` or `sandbox.<domain>`, and otherwise
 * the host name `<port>-<id>.<domain>`.
 */
export function findTarget(
  { headers }: Pick<IncomingMessage, 'headers'>,
  domain: string | undefined,
): Target | undefined {
  const sandboxId = headerOf(headers, 'e2b-sandbox-id')
  // Most requests are for neither.
  if (sandboxId === undefined && domain === undefined) return undefined
  const host = (headers.host ?? '').toLowerCase().replace(/:\d*$/, '')
  const port = headerOf(headers, 'e2b-sandbox-port')
  const isShared =
    host === 'localhost' || isIP(host.replace(/^\[|\]$/g, '')) !== 0 || host.startsWith('sandbox.')
  if (sandboxId !== undefined && port !== undefined && (isShared || host === domain)) {
    if (!PORT.test(port) || Number(port) > 65_535) return undefined
    return { sandboxId, port: Number(port) }
  }
  if (domain === undefined || !host.endsWith(`.${domain}`)) return undefined
  const found = LABEL.exec(host.slice(0, -domain.length - 1))?.groups
  if (found?.['sandboxId'] === undefined || Number(found['port']) > 65_535) return undefined
  return { sandboxId: found['sandboxId'], port: Number(found['port']) }
}
