import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'

const GIVEN = /^[\w.-]{1,64}$/

/**
 * Makes ids that are unique across restarts, without a random number per request. Keeps a well-formed id of the caller.
 */
export function requestIds(): (request: Pick<IncomingMessage, 'headers'>) => string {
  const start = randomBytes(5).toString('hex')
  let count = 0
  return (request) => {
    const given = request.headers['x-request-id']
    if (typeof given === 'string' && GIVEN.test(given)) return given
    count += 1
    return `req-${start}-${count.toString(36)}`
  }
}
