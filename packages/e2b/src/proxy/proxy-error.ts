import type { IncomingMessage, ServerResponse } from 'node:http'
import { sendJson } from '../http/respond.ts'

/** Bodies of E2B's proxy. Clients compare status and text, so both are as theirs. */
const NOT_FOUND = 'The sandbox was not found'
const PORT_CLOSED = 'The sandbox is running but port is not open'
export const TRAFFIC_HEADER = 'e2b-traffic-access-token'

export function sendSandboxNotFound(
  request: IncomingMessage,
  response: ServerResponse,
  sandboxId: string,
): void {
  request.resume()
  sendJson(response, 502, { sandboxId, message: NOT_FOUND, code: 502 })
}

export function sendPortClosed(
  request: IncomingMessage,
  response: ServerResponse,
  { sandboxId, port }: { sandboxId: string; port: number },
): void {
  request.resume()
  sendJson(response, 502, { sandboxId, message: PORT_CLOSED, port, code: 502 })
}

export function sendBadTrafficToken(
  request: IncomingMessage,
  response: ServerResponse,
  { sandboxId, isMissing }: { sandboxId: string; isMissing: boolean },
): void {
  request.resume()
  const message = isMissing
    ? `Sandbox is secured with traffic access token. Token header '${TRAFFIC_HEADER}' is missing`
    : `Sandbox is secured with traffic access token. Provided token in header '${TRAFFIC_HEADER}' is invalid`
  sendJson(response, 403, { sandboxId, message, code: 403 })
}
