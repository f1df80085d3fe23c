import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)
const UNITS = { us: 0.001, ms: 1, s: 1000 }

/** Sends as many requests as `connections` connections can carry, with wrk (Debian's package `wrk`). */
export async function measureWithWrk({ url, headers, path, connections, seconds, keepAlive = true }) {
  const sent = { ...headers, ...(!keepAlive && { connection: 'close' }) }
  const { stdout } = await run('wrk', [
    ...['--threads', '1', '--connections', String(connections), '--duration', `${seconds}s`, '--latency'],
    ...Object.entries(sent).flatMap(([name, value]) => ['--header', `${name}: ${value}`]),
    `${url}${path}`,
  ]).catch((error) => {
    throw error.code === 'ENOENT' ? new Error('wrk is missing. Run `apt-get install wrk`.') : error
  })
  const failed = /Non-2xx or 3xx responses: (\d+)|Socket errors: (.+)/.exec(stdout)
  // wrk counts a connection that the server closes after each response as a read error.
  if (failed !== null && keepAlive) throw new Error(`wrk: ${failed[0]}`)
  return {
    perSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)[1]),
    p50: latencyOf(stdout, 50),
    p99: latencyOf(stdout, 99),
  }
}

function latencyOf(text, percent) {
  const [, value, unit] = new RegExp(`\\b${percent}%\\s+([\\d.]+)(us|ms|s)`).exec(text)
  return Number(value) * UNITS[unit]
}
