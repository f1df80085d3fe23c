import { request } from 'node:http'
import { DormouseError } from '@dormouse/contracts'
import type { Guest } from '@dormouse/engine'

export interface HealthCheck {
  readonly port: number
  /** Undefined: the port must accept a connection. */
  readonly path: string | undefined
  readonly timeoutMs: number
}

/** Throws, with the reason, when a program does not answer as it should. Does not count as use of the sandbox. */
export async function checkHealth(guest: Guest, { port, path, timeoutMs }: HealthCheck): Promise<void> {
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    const connection = await guest.ports.connect(port, { signal })
    connection.on('error', () => {})
    if (path === undefined) return void connection.destroy()
    const status = await new Promise<number>((resolve, reject) => {
      const headers = { host: `localhost:${port}`, 'user-agent': 'dormouse-health', connection: 'close' }
      const asked = request({ createConnection: () => connection, path, headers, signal }, (answer) => {
        answer.resume()
        resolve(answer.statusCode ?? 0)
      })
      asked.once('error', reject).end()
    }).finally(() => connection.destroy())
    if (status >= 400) throw new DormouseError('service_unavailable', `${path} returned status ${status}`)
  } catch (error) {
    if (signal.aborted)
      throw new DormouseError('service_unavailable', `no answer within ${timeoutMs} ms`, { cause: error })
    throw error
  }
}
