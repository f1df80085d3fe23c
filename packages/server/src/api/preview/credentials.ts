import type { IncomingHttpHeaders } from 'node:http'
import { SESSION_COOKIE } from '../session-cookie.ts'

/** Separates what a preview request carries for this server from what it carries for the server in the sandbox. */

const OUR_KEY = /^Bearer +dm_/i
const PROTOCOL = /^dormouse\.(?:v1$|bearer\.)/
const BEARER = 'dormouse.bearer.'
export const TOKEN_PARAMETER = 'dormouse-token'
export const TOKEN_COOKIE = 'dormouse-preview'
/** On answers of this server, so that a client can tell them from those of the program in the sandbox. */
export const REFUSED_HEADER = 'dormouse-refused'

/** The API key in a request. Other credentials are for the server in the sandbox. */
export function keyIn(headers: IncomingHttpHeaders): string | undefined {
  const { authorization } = headers
  if (authorization !== undefined && OUR_KEY.test(authorization)) return authorization
  // Browsers cannot set headers on a WebSocket.
  const bearer = listed(headers['sec-websocket-protocol']).find((name) => name.startsWith(BEARER))
  return bearer === undefined ? undefined : `Bearer ${bearer.slice(BEARER.length)}`
}

export function isForSandbox(name: string, value: string): boolean {
  return name !== 'authorization' || !OUR_KEY.test(value)
}

/** Undefined when nothing is left. */
export function protocolsForSandbox(value: string): string | undefined {
  return (
    listed(value)
      .filter((name) => !PROTOCOL.test(name))
      .join(', ') || undefined
  )
}

export function cookiesForSandbox(value: string): string | undefined {
  return (
    cookies(value)
      .filter(([name]) => !isOurCookie(name))
      .map(([, pair]) => pair)
      .join('; ') || undefined
  )
}

/** Cookies that a sandbox may neither see nor set. */
export function isOurCookie(name: string): boolean {
  return name === TOKEN_COOKIE || name === SESSION_COOKIE
}

/** There may be several: a page of another sandbox can set one for the whole domain. */
export function tokensInCookies({ cookie }: IncomingHttpHeaders): string[] {
  return cookies(cookie ?? '')
    .filter(([name]) => name === TOKEN_COOKIE)
    .map(([name, pair]) => pair.slice(name.length + 1))
}

/** The token in the query, and the target without it. */
export function takeToken(target: string): { token: string | undefined; target: string } {
  const start = target.indexOf('?')
  if (start === -1) return { token: undefined, target }
  const isToken = (part: string) => part.startsWith(`${TOKEN_PARAMETER}=`)
  const parts = target.slice(start + 1).split('&')
  const found = parts.find(isToken)
  if (found === undefined) return { token: undefined, target }
  const rest = parts.filter((part) => !isToken(part)).join('&')
  return {
    token: found.slice(TOKEN_PARAMETER.length + 1),
    target: target.slice(0, start) + (rest === '' ? '' : `?${rest}`),
  }
}

/**
 * Whether a cookie may authorize this request. Pages of other sandboxes are on the same site, so browsers send the
 * cookie with their requests too. Only requests from the preview's own pages and navigations count.
 */
export function isSameOriginRequest(method: string | undefined, headers: IncomingHttpHeaders): boolean {
  const { origin, host } = headers
  if (origin !== undefined && origin.replace(/^https?:\/\//, '') !== host) return false
  const site = headers['sec-fetch-site']
  if (site === undefined || site === 'same-origin' || site === 'none') return true
  return headers['sec-fetch-mode'] === 'navigate' && (method === 'GET' || method === 'HEAD')
}

function cookies(header: string): [name: string, pair: string][] {
  return header
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair !== '')
    .map((pair) => [pair.split('=', 1)[0] ?? '', pair])
}

function listed(header: string | undefined): string[] {
  return (header ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
}
