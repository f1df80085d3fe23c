import type { IncomingHttpHeaders } from 'node:http'

/** The cookie of a sign-in of the page. */
export const SESSION_COOKIE = 'dormouse-session'
/** Scripts of other origins cannot send it: browsers ask first (a preflight), and this server does not allow it. */
export const PAGE_HEADER = 'x-dormouse-page'

/** Undefined: absent, or the request may come from another page than ours. */
export function sessionTokenIn(headers: IncomingHttpHeaders, { isSocket }: { isSocket: boolean }) {
  return isFromOurPage(headers, isSocket) ? cookieIn(headers) : undefined
}

/**
 * Whether our page sent this request. `SameSite=Strict` already keeps other sites out, but a preview below the same
 * domain is on the same site. Links and forms cannot set the header, so a navigation never acts with the cookie.
 */
function isFromOurPage(headers: IncomingHttpHeaders, isSocket: boolean): boolean {
  const { host, origin } = headers
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin') return false
  const isSameOrigin = origin === `http://${host}` || origin === `https://${host}`
  if (origin !== undefined && !isSameOrigin) return false
  // Browsers send no header of ours with a WebSocket, and always its origin.
  return isSocket ? isSameOrigin : headers[PAGE_HEADER] !== undefined
}

export function cookieIn({ cookie }: IncomingHttpHeaders): string | undefined {
  const pairs = (cookie ?? '').split(';').map((pair) => pair.trim())
  const found = pairs.filter((pair) => pair.startsWith(`${SESSION_COOKIE}=`))
  // Another page of this host may have set a second one for a longer path: then neither can be trusted.
  return found.length === 1 ? found[0]?.slice(SESSION_COOKIE.length + 1) : undefined
}

export function setSessionCookie(token: string, how: { maxAgeSeconds: number; isSecure: boolean }): string {
  const secure = how.isSecure ? '; Secure' : ''
  return `${SESSION_COOKIE}=${token}; Path=/; Max-Age=${how.maxAgeSeconds}; HttpOnly; SameSite=Strict${secure}`
}
