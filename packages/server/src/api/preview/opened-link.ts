import { TOKEN_COOKIE } from './credentials.ts'
import { publicOrigin } from './forwarded-headers.ts'
import type { PreviewRequest, PreviewResponse } from './preview-message.ts'

export interface OpenedLink {
  readonly token: string
  readonly expiresAtMs: number
}

/**
 * True for browser navigations: the token moves from the address bar into a cookie. Programs get the response at once.
 */
export function isNavigation({ method, headers }: PreviewRequest): boolean {
  if (method !== 'GET' && method !== 'HEAD') return false
  return headers['sec-fetch-mode'] === 'navigate' || headers.accept?.includes('text/html') === true
}

/** Sends the browser to the same page without the token, which it keeps as a cookie. */
export function moveIntoCookie(
  opened: OpenedLink,
  moved: {
    readonly request: PreviewRequest
    readonly response: PreviewResponse
    readonly requestId: string
    readonly prefix: string | undefined
    readonly target: string
  },
): void {
  const { request, response, requestId, prefix, target } = moved
  response.writeHead(303, {
    'x-request-id': requestId,
    location: (prefix ?? '') + target.replace(/^[/\\]+/, '/'),
    'set-cookie': cookieOf(opened, request, prefix),
    'referrer-policy': 'no-referrer',
    'cache-control': 'no-store',
  })
  response.end()
}

function cookieOf(
  { token, expiresAtMs }: OpenedLink,
  request: PreviewRequest,
  prefix: string | undefined,
): string {
  const seconds = Math.max(1, Math.floor((expiresAtMs - Date.now()) / 1000))
  // In a frame of our page, which is another site: a cookie of that page's own partition. Browsers take `Secure` on
  // `localhost` without TLS.
  const isFramed = request.headers['sec-fetch-dest'] === 'iframe'
  const isSecure = publicOrigin(request).scheme === 'https'
  const site = isFramed ? 'None; Secure; Partitioned' : isSecure ? 'Lax; Secure' : 'Lax'
  return `${TOKEN_COOKIE}=${token}; Path=${prefix ?? ''}/; Max-Age=${seconds}; HttpOnly; SameSite=${site}`
}
