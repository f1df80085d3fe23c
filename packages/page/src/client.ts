import { signal } from '@preact/signals'
import { Dormouse, type SocketConstructor } from 'dormouse'

/** Whether the last request reached the server. */
export const isConnected = signal(true)
/** Called when the server no longer accepts the session. */
let onSignedOut = () => {}

export function whenSignedOut(listener: () => void): void {
  onSignedOut = listener
}

/** The browser sends the session cookie by itself; the header proves that this page asks. */
const fetchAsPage: typeof fetch = async (input, init) => {
  const headers = new Headers(init?.headers)
  headers.delete('authorization')
  headers.set('x-dormouse-page', '1')
  try {
    const response = await fetch(input, { ...init, headers, credentials: 'same-origin' })
    isConnected.value = true
    if (response.status === 401) onSignedOut()
    return response
  } catch (error) {
    if (!init?.signal?.aborted) isConnected.value = false
    throw error
  }
}

class PageSocket extends WebSocket {
  constructor(url: string, protocols: string[]) {
    super(
      url,
      protocols.filter((name) => !name.startsWith('dormouse.bearer.')),
    )
  }
}

export const client = new Dormouse({
  url: location.origin,
  apiKey: 'session',
  fetch: fetchAsPage,
  WebSocket: PageSocket as unknown as SocketConstructor,
})
