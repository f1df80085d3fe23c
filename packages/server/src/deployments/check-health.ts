import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { DormouseError } from '@dormouse/contracts'
import type { Guest } from '@dormouse/engine'
import type { ServiceSettings } from './service-rows.ts'

export interface HealthCheck {
  readonly port: number
  /** Undefined: the port must accept a connection. */
  readonly path: string | undefined
  readonly timeoutMs: number
}

const PAUSE_MS = 250
export const CHECK_TIMEOUT_MS = 5_000

/** The check that a program must pass before requests go to it. Undefined: it is enough that it listens. */
export function firstCheck(port: number, health: ServiceSettings['health']): HealthCheck | undefined {
  if (health?.path === undefined) return undefined
  return { port, path: health.path, timeoutMs: health.timeoutMs ?? CHECK_TIMEOUT_MS }
}

/** Checks again until the program answers as it should. Throws the last failure when `signal` aborts. */
export async function untilHealthy(
  guest: Guest,
  check: HealthCheck,
  { signal, onFailure }: { signal: AbortSignal; onFailure?: (error: unknown) => void },
): Promise<void> {
  for (;;) {
    try {
      return await checkHealth(guest, check)
    } catch (error) {
      onFailure?.(error)
      await sleep(PAUSE_MS, undefined, { signal }).catch(() => {
        throw error
      })
    }
  }
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
