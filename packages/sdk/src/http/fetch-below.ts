import { checkTimeout, invalidArgument } from '../check.ts'
import { DormouseError, throwIfAborted } from '../error.ts'
import type { CallOptions } from '../options.ts'
import type { RequestBody } from './content.ts'
import type { Http } from './http.ts'

interface FetchOptions extends CallOptions {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: RequestBody
}

const REDIRECTS_MAX = 20

/**
 * Sends a request to a path below `at`, and follows redirects that stay there. A program in the sandbox chooses the
 * redirects, and a request carries the key: elsewhere it would do to the server what the program wants.
 */
export async function fetchBelow(
  http: Http,
  at: string,
  path: string,
  options: FetchOptions,
): Promise<Response> {
  checkTimeout('timeoutMs', options.timeoutMs)
  throwIfAborted(options.signal)
  const signal = signalOf(options)
  let { method = 'GET', body } = options
  let target = below(at, at, at + (path.startsWith('/') ? path : `/${path}`))
  if (target === undefined) throw invalidArgument('path', 'leads out of the port', path)
  for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects += 1) {
    const response: Response = await http.fetch(target, { method, headers: options.headers, body, signal })
    if (response.type === 'opaqueredirect')
      throw new DormouseError(
        'conflict',
        'The program redirected the request, and browsers do not say where',
        {
          hint: 'Open `pathUrl` of `ports.link()` instead.',
        },
      )
    const next = below(at, target, response.headers.get('location') ?? undefined)
    const isRepeated = response.status === 307 || response.status === 308
    if (!isRedirect(response) || next === undefined || (isRepeated && body instanceof ReadableStream))
      return response
    await response.body?.cancel()
    if (!isRepeated && method !== 'HEAD' && (response.status === 303 || method === 'POST')) {
      method = 'GET'
      body = undefined
    }
    target = next
  }
  throw new DormouseError('conflict', `The program redirected the request more than ${REDIRECTS_MAX} times`)
}

function isRedirect({ status }: Response): boolean {
  return [301, 302, 303, 307, 308].includes(status)
}

/** Any origin: the address of the server may have a path of its own, and only paths are compared. */
const ORIGIN = 'http://server'

/** The path of `location` as `fetch` reads it, or undefined if it is not below `at`. */
function below(at: string, from: string, location: string | undefined): string | undefined {
  if (location === undefined || !URL.canParse(location, ORIGIN + from)) return undefined
  const { origin, pathname, search } = new URL(location, ORIGIN + from)
  return origin === ORIGIN && pathname.startsWith(`${at}/`) ? pathname + search : undefined
}

/** For a body that is read after the call: nothing has to be released. */
function signalOf({ signal, timeoutMs = 0 }: CallOptions): AbortSignal | undefined {
  if (timeoutMs === 0) return signal
  const limit = AbortSignal.timeout(timeoutMs)
  return signal === undefined ? limit : AbortSignal.any([signal, limit])
}
