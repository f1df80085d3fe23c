import { Agent, request } from 'node:http'

/** A client on kept connections, with as little overhead as Node allows. */
export function clientOf({ url, key, connections = 32 }) {
  // Gives up idle connections long before the server does: it could close one just when a request is on its way.
  const agent = new Agent({ keepAlive: true, maxSockets: connections, timeout: 20_000 })
  const { hostname, port } = new URL(url)
  const call = (method, path, body) =>
    new Promise((resolve, reject) => {
      const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
      const headers = { authorization: `Bearer ${key}` }
      if (payload !== undefined) {
        headers['content-type'] = 'application/json'
        headers['content-length'] = payload.length
      }
      const sent = request({ agent, hostname, port, method, path, headers }, (response) => {
        const parts = []
        response.on('data', (part) => parts.push(part))
        response.on('end', () => {
          const text = Buffer.concat(parts).toString()
          if (response.statusCode < 300) resolve(text === '' ? undefined : JSON.parse(text))
          else reject(new Error(`${method} ${path}: ${response.statusCode} ${text.slice(0, 300)}`))
        })
      })
      sent.on('error', reject)
      sent.end(payload)
    })
  return {
    call,
    close: () => agent.destroy(),
    create: (body = {}) => call('POST', '/v1/sandboxes', { idleTimeoutMs: 0, ...body }),
    run: (id, code) => call('POST', `/v1/sandboxes/${id}/run`, { code }),
    standby: (id, tier) => call('POST', `/v1/sandboxes/${id}/standby`, { tier }),
    remove: (id) => call('DELETE', `/v1/sandboxes/${id}`),
  }
}
