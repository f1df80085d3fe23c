import { Agent, request } from 'node:http'

/** Sends requests from `clients` clients for `ms`. Returns the latency of each and the rate per second. */
export async function load({ url, headers, path, clients, ms, keepAlive = true }) {
  const agent = keepAlive && new Agent({ keepAlive, maxSockets: clients })
  const samples = []
  const began = performance.now()
  const until = began + ms
  const work = async () => {
    while (performance.now() < until) {
      const start = performance.now()
      await get({ agent, url, headers, path })
      samples.push(performance.now() - start)
    }
  }
  await Promise.all(Array.from({ length: clients }, work))
  if (agent) agent.destroy()
  return { samples, perSecond: (samples.length / (performance.now() - began)) * 1000 }
}

/** Returns the bytes per second of one large response. */
export async function download({ url, headers, path }) {
  const began = performance.now()
  const bytes = await get({ agent: false, url, headers, path })
  return (bytes / (performance.now() - began)) * 1000
}

function get({ agent, url, headers, path }) {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    const fail = (cause) => reject(new Error(`${url}${path}: ${cause.message}`, { cause }))
    const sent = request({ agent, hostname, port, path, headers }, (response) => {
      let bytes = 0
      response.on('data', (part) => {
        bytes += part.length
      })
      response.on('end', () => {
        if (response.statusCode === 200) resolve(bytes)
        else reject(new Error(`${path}: ${response.statusCode}`))
      })
      response.on('error', fail)
    })
    sent.on('error', fail)
    sent.end()
  })
}
