import websocket from '@fastify/websocket'
import { TERMINAL_MESSAGE_MAX_BYTES } from './limits.ts'
import type { App } from './route.ts'

/** The protocol that clients offer besides their key, so that the answer does not repeat the key. */
const PROTOCOL = 'dormouse.v1'
const BEARER = 'dormouse.bearer.'

/** Runs before routes and authentication: a browser cannot set headers, so it sends its key among the protocols. */
export async function useWebSockets(app: App): Promise<void> {
  await app.register(websocket, {
    options: {
      maxPayload: TERMINAL_MESSAGE_MAX_BYTES,
      perMessageDeflate: false,
      handleProtocols: (offered: Set<string>) => {
        if (offered.has(PROTOCOL)) return PROTOCOL
        // A browser that offers protocols must get one back.
        return [...offered].find((name) => name.startsWith(BEARER)) ?? false
      },
    },
  })
  app.addHook('onRequest', (request, _reply, done) => {
    const { headers } = request
    if (request.ws && headers.authorization === undefined) {
      const offered = headers['sec-websocket-protocol']?.split(',').map((name) => name.trim())
      const bearer = offered?.find((name) => name.startsWith(BEARER))
      if (bearer !== undefined) headers.authorization = `Bearer ${bearer.slice(BEARER.length)}`
    }
    done()
  })
}
